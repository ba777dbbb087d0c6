"""In real clusters: the first line of `dray explain` is the true cause, and every suggestion, once made, lets the pod run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.api.resources import BY_KIND
from dray.api.wire import Tree
from dray.cli import main
from dray.testing import Cluster
from tests.inspect.situations import SITUATIONS, Situation, phase
from tests.waiting import wait_until

GATES = {"feature_gates": "AllAlpha=true,AllBeta=true"}


def started(situation: Situation, cluster: Cluster) -> None:
    for step in situation.steps:
        if callable(step):
            step(cluster)
        else:
            cluster.apply(step)


def explained(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["explain", "pod", "p", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def explanation(situation: Situation, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What is said once the cluster has seen everything."""

    def look() -> dict[str, Any] | None:
        found = explained(cluster, capsys)
        is_so = found["cause"]["code"] == situation.code and situation.says in found["cause"]["text"]
        return found if is_so and bool(found.get("help")) == bool(situation.helps) else None

    try:
        return wait_until(look)
    except AssertionError:
        raise AssertionError(explained(cluster, capsys)) from None


def make(cluster: Cluster, change: Tree) -> None:
    """Make one change of a suggestion."""
    group = change["apiVersion"].rpartition("/")[0]
    plural = BY_KIND[group, change["kind"]].plural
    key = plural, change["name"]
    where = change.get("namespace", "default")
    match change["verb"]:
        case "create":
            wait_until(lambda: is_gone(cluster, *key, where))
            cluster.apply(change["body"])
        case "patch":
            cluster.patch(*key, change["body"], where)
        case "delete":
            cluster.delete(*key, where)
        case "evict":
            evict(cluster, change["name"], where)
        case "replace":
            cluster.delete(*key, where, grace=0 if change.get("force") else None)
            wait_until(lambda: is_gone(cluster, *key, where))
            cluster.apply(change["body"])


def evict(cluster: Cluster, name: str, namespace: str) -> None:
    """Evict a pod, and wait until the one that its controller makes in its place has a node."""
    owner = cluster.get("pods", name, namespace)["metadata"]["ownerReferences"][0]["uid"]
    cluster.delete("pods", name, namespace)

    def successors() -> list[bool]:
        pods = [one for one in cluster.list("pods", namespace) if "ownerReferences" in one["metadata"]]
        mine = [one for one in pods if one["metadata"]["ownerReferences"][0]["uid"] == owner]
        return [bool(one["spec"].get("nodeName")) for one in mine if one["metadata"]["name"] != name]

    wait_until(lambda: is_gone(cluster, "pods", name, namespace) and successors() == [True])


def is_gone(cluster: Cluster, plural: str, name: str, namespace: str) -> bool:
    try:
        cluster.get(plural, name, namespace)
    except NotFound:
        return True
    return False


@pytest.mark.wording
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name.replace(" ", "-"))
def test_the_cause_is_true_and_what_is_suggested_helps(
    situation: Situation, capsys: pytest.CaptureFixture[str]
) -> None:
    number, at = 1, 0
    while at < number:
        with Cluster(**GATES, **situation.options) as cluster:
            started(situation, cluster)
            found = explanation(situation, cluster, capsys)
            helps = found.get("help", [])
            assert [one["code"] for one in helps[:1]] == ([situation.helps] if situation.helps else [])
            for change in helps[at]["changes"] if helps else ():
                make(cluster, change)
            if helps:
                wait_until(lambda: phase(cluster, "p") == "Running")
        number, at = len(helps), at + 1


def test_there_are_enough_situations() -> None:
    assert len({situation.name for situation in SITUATIONS}) == len(SITUATIONS) >= 60
    assert sum(situation.helps is not None for situation in SITUATIONS) >= 45
