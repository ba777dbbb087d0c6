"""A driver as it is shipped, by one `kubectl apply -f`: in an image from a registry or a layout, until it is gone again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.testing import Cluster
from tests.cli.running import DRAY
from tests.kubectls import Kubectl, kubectl_of
from tests.node.images.imaging import Layout, layer
from tests.node.images.test_sources import real_registry as real_registry
from tests.node.images.test_sources import skopeo
from tests.node.test_driver_pods import host_directories
from tests.node.test_runtimes import unavailable
from tests.waiting import SECONDS, wait_until

EXAMPLE = files("dray") / "examples" / "daemonset"
# Nothing but links: what Python needs comes from the machine.
LINKS = layer({"usr/": "", "bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "tmp/": "", "etc/": ""})
WITHIN = f"--timeout={SECONDS:g}s"
OTHER_NODE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "stolen"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "elsewhere",
        "pool": {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1},
    },
}


def manifests(image: str, devices: int) -> str:
    """The example with an image, the program of this machine, and what that needs."""
    trees = [*yaml.safe_load_all((EXAMPLE / "driver.yaml").read_text())]
    pod = trees[-1]["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        with_machine(pod, container, image)
    plugin = pod["containers"][0]
    plugin["command"] = [*DRAY, "driver", "example", "gpu"]
    plugin["args"] = [word.replace("--devices=4", f"--devices={devices}") for word in plugin["args"]]
    return yaml.safe_dump_all(trees)


def with_machine(pod: dict[str, Any], container: dict[str, Any], image: str) -> None:
    container["image"] = image
    needed = host_directories(image)
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, (path, _) in needed.items()]
    container["volumeMounts"] = [*container.get("volumeMounts", ()), *mounts]
    there = {volume["name"] for volume in pod.setdefault("volumes", [])}
    pod["volumes"] += [
        {"name": name, "hostPath": {"path": path}} for name, (path, _) in needed.items() if name not in there
    ]


def user(image: str) -> str:
    tree = yaml.safe_load((EXAMPLE / "pod.yaml").read_text())
    with_machine(tree["spec"], tree["spec"]["containers"][0], image)
    return yaml.safe_dump(tree)


def made_layout(directory: Path) -> Layout:
    """Two versions of an image."""
    layout = Layout(directory / "gpu-driver")
    for tag in ("v1", "v2"):
        layout.add(tag, [LINKS], Env=[f"VERSION={tag}"])
    return layout


@contextmanager
def running(**options: Any) -> Iterator[Cluster]:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    with Cluster(agents=1, runtime="bwrap", **options) as made:
        yield made


@pytest.mark.slow
async def test_a_driver_from_a_registry_lives_and_goes_without_a_trace(
    real_registry: str, tmp_path: Path, hasty: None
) -> None:
    layout = made_layout(tmp_path)
    for tag in ("v1", "v2"):
        to = f"docker://{real_registry}/dra/gpu-driver:{tag}"
        await skopeo("copy", "--dest-tls-verify=false", f"oci:{layout.directory}:{tag}", to)
    await asyncio.to_thread(lives, f"{real_registry}/dra/gpu-driver", {"registry": (real_registry,)}, tmp_path)


@pytest.mark.slow
def test_a_driver_from_a_layout_lives_and_goes_without_a_trace(tmp_path: Path, hasty: None) -> None:
    made_layout(tmp_path / "images")
    lives("gpu-driver", {"images": (tmp_path / "images",)}, tmp_path)


def lives(image: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Apply it, use it, upgrade it, use it again, delete it."""
    with running(**options) as cluster:
        kubectl = kubectl_of("recent", cluster.kubeconfig)
        file = tmp_path / "driver.yaml"
        file.write_text(manifests(f"{image}:v1", 4))
        kubectl("apply", "-f", str(file))
        kubectl("-n", "gpu-driver", "rollout", "status", "daemonset/gpu-driver", WITHIN)
        wait_until(lambda: published(kubectl) == 4)
        serves(kubectl, f"{image}:v1")
        stays_on_its_node(kubectl)

        file.write_text(manifests(f"{image}:v2", 6))
        kubectl("apply", "-f", str(file))
        kubectl("-n", "gpu-driver", "rollout", "status", "daemonset/gpu-driver", WITHIN)
        wait_until(lambda: published(kubectl) == 6)
        assert "VERSION=v2" in kubectl("-n", "gpu-driver", "exec", driver_pod(kubectl), "-c", "plugin", "--", "env")
        serves(kubectl, f"{image}:v2")

        kubectl("delete", "-f", str(file), "--ignore-not-found", WITHIN)
        wait_until(lambda: is_gone(cluster))


def published(kubectl: Kubectl) -> int:
    slices = json.loads(kubectl("get", "resourceslices", "-o", "json"))["items"]
    return sum(len(one["spec"].get("devices", ())) for one in slices)


def driver_pod(kubectl: Kubectl) -> str:
    """The one that is there once the one before is gone."""

    def only() -> str:
        names = kubectl("-n", "gpu-driver", "get", "pods", "-o", "jsonpath={.items[*].metadata.name}").split()
        return names[0] if len(names) == 1 else ""

    return wait_until(only)


def serves(kubectl: Kubectl, image: str) -> None:
    kubectl("apply", "-f", "-", stdin=user(image))
    kubectl("wait", "--for=condition=Ready", "pod/training", WITHIN)
    devices = [line for line in kubectl("exec", "training", "--", "env").splitlines() if line.startswith("GPU_DEVICE_")]
    assert len(devices) == 2
    kubectl("delete", "pod", "training")


def stays_on_its_node(kubectl: Kubectl) -> None:
    """The account of the driver, as its pod has it, writes no slice of another node."""
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    account = kubectl("-n", "gpu-driver", "exec", driver_pod(kubectl), "-c", "plugin", "--", "cat", token)
    plain = kubectl.kubeconfig.with_name("plain")  # the same cluster without the administrator's certificate
    tree = yaml.safe_load(kubectl.kubeconfig.read_text())
    plain.write_text(yaml.safe_dump(tree | {"users": [{"name": tree["users"][0]["name"], "user": {"token": account}}]}))
    refused = Kubectl("recent", plain).run("create", "-f", "-", stdin=json.dumps(OTHER_NODE))
    assert (refused.returncode, "forbidden" in refused.stderr.lower()) == (1, True), refused.stderr


def is_gone(cluster: Cluster) -> bool:
    """Whether neither the cluster nor the node knows of the driver any more."""
    kinds = ("daemonsets", "deviceclasses", "resourceslices", "resourceclaims", "customresourcedefinitions")
    left = [plural for plural in (*kinds, "validatingadmissionpolicies", "pods") if cluster.list(plural)]
    node = cluster.directory / "nodes/agent-0"
    files_ = [*(node / "plugins_registry").iterdir(), *(node / "cdi").iterdir(), *(node / "pods").iterdir()]
    return not left and not files_ and not [*(node / "plugins").rglob("*.sock")]


MONITOR = """
apiVersion: v1
kind: Namespace
metadata: {name: monitoring, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: all, namespace: monitoring}
spec:
  spec:
    devices:
      requests:
        - {name: gpus, exactly: {deviceClassName: gpu.example.com, allocationMode: All, adminAccess: true}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: monitor, namespace: monitoring}
spec:
  selector: {matchLabels: {app: monitor}}
  template:
    metadata: {labels: {app: monitor}}
    spec:
      terminationGracePeriodSeconds: 1
      resourceClaims: [{name: gpus, resourceClaimTemplateName: all}]
      initContainers: [{name: look, image: x, command: [/bin/sh, -c, "env | grep GPU_DEVICE_3"],
                        resources: {claims: [{name: gpus}]}}]
      containers: [{name: main, image: x, command: [sleep, infinity], resources: {claims: [{name: gpus}]}}]
"""


@pytest.mark.slow
def test_a_deployment_of_drivers_serves_users_and_a_monitor_with_admin_access() -> None:
    trees = [*yaml.safe_load_all(manifests("none", 4))]
    deployment = trees[-1]
    deployment["kind"] = "Deployment"
    del deployment["spec"]["updateStrategy"]
    with running() as cluster:
        kubectl = kubectl_of("recent", cluster.kubeconfig)
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(trees))
        kubectl("-n", "gpu-driver", "rollout", "status", "deployment/gpu-driver", WITHIN)
        wait_until(lambda: published(kubectl) == 4)
        kubectl("apply", "-f", "-", stdin=user("none"))
        kubectl("wait", "--for=condition=Ready", "pod/training", WITHIN)
        kubectl("apply", "-f", "-", stdin=MONITOR)
        kubectl("-n", "monitoring", "rollout", "status", "daemonset/monitor", WITHIN)
        seen = kubectl("-n", "monitoring", "exec", "daemonset/monitor", "-c", "main", "--", "env").splitlines()
        assert len([line for line in seen if line.startswith("GPU_DEVICE_")]) == 4

        # One that is killed at once leaves nothing prepared, and another takes its place.
        kubectl("-n", "monitoring", "delete", "pod", "--all", "--force", "--grace-period=0")
        kubectl("-n", "monitoring", "rollout", "status", "daemonset/monitor", WITHIN)
        kubectl("delete", "namespace", "monitoring", WITHIN)
        kubectl("delete", "pod", "training")
        wait_until(lambda: not cluster.list("resourceclaims"))
        assert published(kubectl) == 4
