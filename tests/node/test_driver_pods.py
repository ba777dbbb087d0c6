"""A driver as it is shipped: a DaemonSet with host paths, a service account and a probe, on a cluster with users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import dray
from dray.api.resources import BY_KIND
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Event, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client import Client
from dray.client.config import from_kubeconfig
from dray.client.http import Http
from dray.testing import Cluster
from tests.cli.running import DRAY
from tests.node.images.imaging import Layout, layer
from tests.node.images.test_sources import real_registry as real_registry
from tests.node.images.test_sources import skopeo
from tests.node.test_runtimes import unavailable
from tests.waiting import eventually

DRIVER = "gpu.example.com"
NAMESPACE = "gpu-driver"


def host_directories(image: str) -> dict[str, tuple[str, str]]:
    """What a Python of this machine needs: for an image that has nothing but links, and for a project below /tmp."""
    needed = {sys.prefix, sys.base_prefix, *(str(Path(m.__file__).resolve().parents[2]) for m in (dray, msgspec))}
    needed = needed | {"/usr"} if image != "none" else {path for path in needed if path.startswith("/tmp/")}
    return {f"host-{number}": (path, "Directory") for number, path in enumerate(sorted(needed))}


def driver_daemon_set(image: str = "none", **strategy: Any) -> dict[str, Any]:
    """As charts write it: the directories of the kubelet and of CDI, the node's name, and a probe."""
    paths = {
        **host_directories(image),
        "plugins": ("/var/lib/kubelet/plugins", "Directory"),
        "registry": ("/var/lib/kubelet/plugins_registry", "Directory"),
        "cdi": ("/var/run/cdi", "DirectoryOrCreate"),
    }
    container = {
        "name": "plugin",
        "image": image,
        "command": [
            *DRAY,
            "driver",
            "example",
            "gpu",
            "--node",
            "$(NODE_NAME)",
            "--devices",
            "2",
            "--instance",
            "$(UID)",
        ],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "HOME", "value": "/nowhere"},  # so that no kubeconfig of this machine is found
        ],
        "readinessProbe": {
            "exec": {"command": ["/bin/sh", "-c", f"ls /var/lib/kubelet/plugins/{DRIVER}/"]},
            "periodSeconds": 1,
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, (path, _) in paths.items()],
    }
    spec = {
        "serviceAccountName": "gpu-driver",
        "hostNetwork": True,
        "initContainers": [
            {"name": "init", "image": image, "command": ["/bin/true"], "volumeMounts": container["volumeMounts"]}
        ],
        "containers": [container],
        "volumes": [{"name": n, "hostPath": {"path": path, "type": kind}} for n, (path, kind) in paths.items()],
    }
    template = {"metadata": {"labels": {"app": "driver"}}, "spec": spec}
    return {
        "metadata": {"name": "driver"},
        "spec": {"selector": {"matchLabels": {"app": "driver"}}, "template": template, **strategy},
    }


def manifests() -> list[dict[str, Any]]:
    text = subprocess.run([*DRAY, "driver", "example", "gpu", "--manifests"], capture_output=True, check=True).stdout
    return [*yaml.safe_load_all(text)]


async def apply(client: Client, tree: dict[str, Any]) -> None:
    group, _, _ = tree["apiVersion"].rpartition("/")
    kind: Any = BY_KIND[group, tree["kind"]].type
    await client.create(kind, tree, namespace=tree["metadata"].get("namespace", ""))


async def published(client: Client) -> bool:
    return any(s.spec.driver == DRIVER and s.spec.devices for s in (await client.list(ResourceSlice)).items)


async def serves_a_pod(client: Client, image: str = "none", number: int = 0) -> None:
    needed = host_directories(image) if image != "none" else {}
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    tree = {"metadata": {"name": f"c{number}"}, "spec": {"devices": {"requests": [request]}}}
    await client.create(ResourceClaim, tree, namespace="default")
    container = {
        "name": "main",
        "image": image,
        "command": ["/bin/sh", "-c", "env | grep -q GPU"],
        "volumeMounts": [{"name": name, "mountPath": path} for name, (path, _) in needed.items()],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, (path, _) in needed.items()],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"c{number}"}],
    }
    await client.create(Pod, {"metadata": {"name": f"user{number}"}, "spec": spec}, namespace="default")

    async def done() -> bool:
        phase = (await client.get(Pod, f"user{number}", "default")).status.phase
        assert phase != "Failed"
        return phase == "Succeeded"

    try:
        await eventually(done, 40)
    except AssertionError:
        told = [(e.involvedObject.name, e.reason, e.message) for e in (await client.list(Event)).items]
        raise AssertionError(f"pod user{number} is not served: {told}") from None


async def ready(client: Client) -> bool:
    status = (await client.get(DaemonSet, "driver", NAMESPACE)).status
    return status.numberReady == status.desiredNumberScheduled == 1


@pytest.mark.slow
async def test_a_driver_runs_as_a_pod_and_serves_others(hasty: None) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    with Cluster(agents=1, runtime="bwrap") as cluster:
        async with Http(from_kubeconfig(str(cluster.kubeconfig))) as client:
            for tree in manifests():
                await apply(client, tree)
            await client.create(DaemonSet, driver_daemon_set(), namespace=NAMESPACE)
            await eventually(lambda: published(client))
            await eventually(lambda: ready(client))
            await serves_a_pod(client)
            await client.delete(DaemonSet, "driver", NAMESPACE)
            await eventually(lambda: gone(client))


@pytest.mark.slow
async def test_a_driver_from_a_registry_is_upgraded_and_leaves_nothing(
    real_registry: str, tmp_path: Path, hasty: None
) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    layout = Layout(tmp_path / "source")
    links = layer({"usr/": "", "bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "tmp/": "", "etc/": ""})
    for tag in ("v1", "v2"):
        layout.add(tag, [links], Env=[f"VERSION={tag}"])
        to = f"docker://{real_registry}/dra/driver:{tag}"
        await skopeo("copy", "--dest-tls-verify=false", f"oci:{layout.directory}:{tag}", to)
    image = f"{real_registry}/dra/driver"
    with Cluster(agents=1, runtime="bwrap", registry=(real_registry,)) as cluster:
        async with Http(from_kubeconfig(str(cluster.kubeconfig))) as client:
            for tree in manifests():
                await apply(client, tree)
            surge = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
            await client.create(DaemonSet, driver_daemon_set(f"{image}:v1", **surge), namespace=NAMESPACE)
            await eventually(lambda: published(client))
            await serves_a_pod(client, f"{image}:v1", 1)
            template = driver_daemon_set(f"{image}:v2")["spec"]["template"]
            await client.patch(DaemonSet, "driver", {"spec": {"template": template}}, NAMESPACE)
            await eventually(lambda: runs_only(client, f"{image}:v2"))
            await eventually(lambda: published(client))
            await serves_a_pod(client, f"{image}:v2", 2)
            await client.delete(DaemonSet, "driver", NAMESPACE)
            await eventually(lambda: gone(client))
            assert not [*(cluster.directory / "nodes/agent-0/plugins_registry").glob("*")]


async def runs_only(client: Client, image: str) -> bool:
    pods = (await client.list(Pod, NAMESPACE)).items
    statuses = [s for pod in pods for s in pod.status.containerStatuses]
    return [s.image for s in statuses if s.ready] == [image] and len(pods) == 1


async def gone(client: Client) -> bool:
    return not (await client.list(Pod, NAMESPACE)).items and not await published(client)
