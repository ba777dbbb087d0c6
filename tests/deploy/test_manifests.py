"""The Kustomize bases and the admission policy, by real kubectl and Helm: what is deployed, and which pods dray is given."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.core.configuration import read
from dray.testing import Cluster
from tests.charts.installing import PROGRAMS, run
from tests.deploy.roles import CHART, DEPLOY
from tests.e2e.objects import claim, pod, template
from tools import kustomize

pytestmark = pytest.mark.skipif(not (PROGRAMS / "helm").exists(), reason="needs Helm and kubectl")
NAMESPACE = "dray-system"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield made


@pytest.mark.parametrize("part", kustomize.PARTS)
def test_a_kustomize_base_is_what_the_chart_deploys_and_can_be_applied(part: str, cluster: Cluster) -> None:
    base = DEPLOY / "kustomize" / part
    written = {path.name: path.read_text() for path in base.iterdir()}
    assert written == kustomize.render(part), "run tools/kustomize.py"
    told = run(cluster, "kubectl", "apply", "--dry-run=server", "-k", str(base))
    assert told.count("created") == len(told.splitlines()) > 0


def test_a_changed_configuration_has_another_name_so_that_the_pods_start_again(tmp_path: Path) -> None:
    base = DEPLOY / "kustomize/scheduler"
    (tmp_path / "scheduler.yaml").write_text((base / "scheduler.yaml").read_text() + "percentageOfNodesToScore: 50\n")
    (tmp_path / "base").symlink_to(base)
    patch = {"name": "dray-scheduler", "behavior": "replace", "files": ["scheduler.yaml"]}
    changed = {"namespace": NAMESPACE, "resources": ["base"], "configMapGenerator": [patch]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(changed))
    assert configuration_name(tmp_path) != configuration_name(base)


def configuration_name(directory: Path) -> str:
    command = [str(PROGRAMS / "kubectl"), "kustomize", "--load-restrictor=LoadRestrictionsNone", str(directory)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [deployment] = [tree for tree in yaml.safe_load_all(printed) if tree["kind"] == "Deployment"]
    [volume] = deployment["spec"]["template"]["spec"]["volumes"]
    return str(volume["configMap"]["name"])


def rendered(**values: str) -> list[dict[str, Any]]:
    """The objects of the chart with these values."""
    words = [f"--set={name}={value}" for name, value in values.items()]
    command = [str(PROGRAMS / "helm"), "template", "dray", str(CHART), f"--namespace={NAMESPACE}", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tree for tree in yaml.safe_load_all(printed) if tree]


def test_rules_and_dashboard_are_deployed_as_they_are_in_their_files() -> None:
    wanted = dict.fromkeys(("monitoring.podMonitor", "monitoring.rules", "monitoring.dashboard"), "true")
    objects = {tree["kind"]: tree for tree in rendered(**{"scheduler.enabled": "false", **wanted})}
    assert objects["PrometheusRule"]["spec"] == yaml.safe_load((CHART / "monitoring/rules.yaml").read_text())
    shown = json.loads(objects["ConfigMap"]["data"]["dray.json"])
    assert shown == json.loads((CHART / "monitoring/dashboard.json").read_text())
    [deployment] = [tree for tree in rendered() if tree["kind"] == "Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert objects["PodMonitor"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    paths = {(one["port"], one["path"]) for one in objects["PodMonitor"]["spec"]["podMetricsEndpoints"]}
    assert paths == {(container["ports"][0]["name"], path) for path in ("/metrics", "/metrics/resources")}


def test_to_take_turns_with_kube_scheduler_the_role_is_for_its_lease() -> None:
    lease = {"scheduler.lease.name": "kube-scheduler", "scheduler.lease.namespace": "kube-system"}
    objects = rendered(**lease, **{"scheduler.schedulerNames": "{default-scheduler}"})
    [role] = [tree for tree in objects if tree["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "kube-system"
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["kube-scheduler"]]
    [file] = [tree["data"]["scheduler.yaml"] for tree in objects if tree["kind"] == "ConfigMap"]
    configuration = read(yaml.safe_load(file))
    assert (configuration.election.name, configuration.election.namespace) == ("kube-scheduler", "kube-system")
    assert [*configuration.profiles] == ["default-scheduler"]


LABELLED = {"policy.namespaceSelector.matchLabels.team": "ml", "policy.onlyDevices": "false"}
EXTENDED = {"policy.extendedResources[0]": "example.com/gpu"}


@pytest.mark.parametrize("values", [{}, LABELLED, EXTENDED], ids=["devices", "namespaces", "extended"])
def test_the_policy_gives_pods_to_dray_that_nobody_has_given_to_another_scheduler(
    values: dict[str, str], cluster: Cluster
) -> None:
    for name in ("ml", "web"):
        labels = {"team": name}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        cluster.apply(claim("c", namespace=name))
        cluster.apply(template("t", namespace=name))
    switches = {"scheduler.enabled": "false", "reader.enabled": "false", "policy.enabled": "true", **values}
    words = [f"--set={name}={value}" for name, value in switches.items()]
    run(cluster, "helm", "install", "policy", str(CHART), "-n", NAMESPACE, *words)
    try:
        given = {f"{where}/{name}" for where in ("ml", "web", NAMESPACE) for name in schedulers(cluster, where)}
    finally:
        run(cluster, "helm", "uninstall", "policy", "-n", NAMESPACE)
    used = {f"{where}/{name}" for where in ("ml", "web") for name in ("claim", "template", "class")}
    expected = {
        "devices": used,
        "namespaces": {f"ml/{name}" for name in ("claim", "template", "class", "named", "plain")},
        "extended": used | {"ml/named", "web/named"},
    }
    assert given == expected["namespaces" if values is LABELLED else "extended" if values is EXTENDED else "devices"]
    assert schedulers(cluster, "ml") == set()  # once the policy is gone


def schedulers(cluster: Cluster, namespace: str) -> set[str]:
    """Create pods of several kinds. Returns the names of those that dray is to schedule."""

    def limits(name: str) -> dict[str, object]:
        return {"containers": [{"name": "main", "image": "app", "resources": {"limits": {name: "1"}}}]}

    pods = {
        "plain": {},
        "claim": {"claims": ["c"]},
        "template": {"templates": ["t"]},
        "class": limits("deviceclass.resource.kubernetes.io/gpu"),
        "named": limits("example.com/gpu"),
        "other": {"claims": ["c"], "schedulerName": "other"},
        "bound": {"claims": ["c"], "nodeName": "somewhere"},
    }
    for name, more in pods.items():
        cluster.apply(pod(name, namespace=namespace, **more))
    found = {one["metadata"]["name"]: one["spec"]["schedulerName"] for one in cluster.list("pods", namespace)}
    for name in pods:
        cluster.delete("pods", name, namespace, grace=0)
    assert found["other"] == "other"
    return {name for name, scheduler in found.items() if scheduler == "dray-scheduler"}
