"""Which nodes get daemon pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node, Pod, PodSpec
from dray.controllers.workloads.daemons import Fit, daemon_tree, fit, node_of
from tests import objects
from tests.controllers.workloads.objects import pod


def labelled_node(**spec: Any) -> Node:
    labels = {"zone": "a", "kubernetes.io/hostname": "n1"}
    return msgspec.convert(objects.node("n1", labels=labels, **spec), Node)


def required(**term: Any) -> dict[str, Any]:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": terms}}


IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
TAINT = {"key": "dedicated", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "taints", "expected"),
    [
        ({}, [], Fit(True, True)),
        ({"nodeName": "n1"}, [], Fit(True, True)),
        ({"nodeName": "n2"}, [], Fit(False, False)),
        ({"nodeSelector": {"zone": "a"}}, [], Fit(True, True)),
        ({"nodeSelector": {"zone": "b"}}, [], Fit(False, False)),
        (required(**IN_ZONE), [], Fit(True, True)),
        (required(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n2"]}]), [], Fit(False, False)),
        ({}, [TAINT], Fit(False, True)),
        ({}, [{**TAINT, "effect": "NoExecute"}], Fit(False, False)),
        ({}, [{**TAINT, "effect": "PreferNoSchedule"}], Fit(True, True)),
        ({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, [TAINT], Fit(True, True)),
        ({}, [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}], Fit(True, True)),
        ({}, [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}], Fit(False, True)),
        (
            {"hostNetwork": True},
            [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}],
            Fit(True, True),
        ),
    ],
)
def test_name_labels_and_taints_decide(spec: dict[str, Any], taints: list[dict[str, str]], expected: Fit) -> None:
    assert fit(msgspec.convert(spec, PodSpec), labelled_node(taints=taints)) == expected


def test_a_daemon_pod_is_tied_to_its_node_in_place_of_the_templates_terms() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": required(**IN_ZONE)}
    subject = msgspec.convert({"metadata": {"name": "agent", "uid": "1"}, "spec": {"template": template}}, DaemonSet)
    tree = daemon_tree(subject, "hash", "n1")
    made = msgspec.convert(tree, Pod)
    assert node_of(made) == "n1"
    assert made.metadata.labels == {"a": "b", "controller-revision-hash": "hash"}
    assert "zone" not in str(tree["spec"]["affinity"])


def test_a_pod_belongs_to_the_node_that_it_runs_on() -> None:
    assert node_of(pod(node="n7")) == "n7"
    assert node_of(pod()) == ""
