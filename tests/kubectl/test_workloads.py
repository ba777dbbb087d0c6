"""Rolling out and draining as users do it: transcripts with an old kubectl and a recent one, on real node agents."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from dray.testing import Cluster
from tests import objects
from tests.kubectls import Kubectl, kubectl_of
from tests.waiting import SECONDS, wait_until

WITHIN = f"--timeout={SECONDS:g}s"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(agents=2, runtime="fake") as made:
        yield made


@pytest.fixture(params=["old", "recent"])
def kubectl(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Kubectl]:
    kubectl = kubectl_of(request.param, cluster.kubeconfig)
    wait_until(lambda: kubectl("get", "nodes", "-o", "name").count("node/") == 2)
    yield kubectl
    kubectl("uncordon", "agent-0")
    kubectl("delete", "deployment,poddisruptionbudget", "--all")


def deployment_text(replicas: int) -> str:
    containers = [{"name": "c", "image": "web:1"}]
    return yaml.safe_dump(objects.deployment("web", replicas, containers=containers, terminationGracePeriodSeconds=1))


def images(kubectl: Kubectl) -> set[str]:
    return set(kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}").split())


def test_a_rollout_goes_on_and_back(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment_text(3))
    kubectl("rollout", "status", "deployment/web", WITHIN)
    kubectl("set", "image", "deployment/web", "c=web:2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", WITHIN)
    wait_until(lambda: images(kubectl) == {"web:2"})
    assert len(kubectl("rollout", "history", "deployment/web").split("REVISION")[1].split()) >= 4
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    wait_until(lambda: images(kubectl) == {"web:1"})
    kubectl("rollout", "restart", "deployment/web")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", WITHIN)


def test_a_node_is_drained_and_used_again(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment_text(4))
    kubectl("rollout", "status", "deployment/web", WITHIN)
    told = kubectl("drain", "agent-0", "--ignore-daemonsets", WITHIN)
    assert "agent-0" in told
    wait_until(lambda: nodes(kubectl) == {"agent-1"})
    kubectl("rollout", "status", "deployment/web", WITHIN)
    assert "SchedulingDisabled" in kubectl("get", "node", "agent-0")
    kubectl("uncordon", "agent-0")
    assert "SchedulingDisabled" not in kubectl("get", "node", "agent-0")


def nodes(kubectl: Kubectl) -> set[str]:
    """Where pods are that nobody has told to go."""
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["spec"].get("nodeName") for pod in pods if "deletionTimestamp" not in pod["metadata"]}


@pytest.mark.slow
def test_a_budget_keeps_a_node_from_being_drained(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment_text(2))
    kubectl("rollout", "status", "deployment/web", WITHIN)
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    tree = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"}, "spec": budget}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(tree))
    wait_until(lambda: kubectl("get", "pdb", "all", "-o", "jsonpath={.status.currentHealthy}") == "2")
    kept = kubectl.run("drain", "agent-0", "agent-1", "--ignore-daemonsets", "--timeout=2s")
    assert kept.returncode == 1
    assert "disruption budget" in kept.stdout + kept.stderr
    kubectl("uncordon", "agent-1")
