"""Files of node groups: what they make, and what is said about those that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.types.core import Node
from dray.autoscaling.groups import Expander, GroupError, read
from dray.autoscaling.templates import GROUP_LABEL
from tests.sim.test_cluster import machines

CPU = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}}


def pool(**device: Any) -> dict[str, Any]:
    return {**CPU, "pools": [{"driver": "gpu.example.com", "devices": [device]}]}


def written(*groups: dict[str, Any], **settings: Any) -> str:
    return yaml.safe_dump({"groups": [*groups], "settings": settings})


def test_a_profile_makes_a_group_without_any_node() -> None:
    groups = read(written({"name": "h100", "profile": "dgx-h100", "max": 3, "price": 80}))
    node, *slices = groups.groups[0].template.objects("h100-new-1")
    assert isinstance(node, Node)
    assert (node.metadata.name, node.metadata.labels[GROUP_LABEL]) == ("h100-new-1", "h100")
    assert {(one.spec.nodeName, one.spec.pool.name) for one in slices} == {("h100-new-1", "h100-new-1")}  # type: ignore[attr-defined]
    assert groups.of(node) is groups.groups[0]


def test_a_live_node_makes_a_group_with_its_devices_labels_and_taints() -> None:
    objects = [object_of(tree, FeatureGates()) for tree in machines(2)]
    group = read(
        written({"name": "more", "node": "node-1", "max": 3, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}),
        objects,
    ).groups[0]
    node, *slices = group.template.objects("more-new-1")
    assert isinstance(node, Node)
    assert [taint.key for taint in node.spec.taints] == ["gpu"]
    assert len(slices) == 1


def test_nodes_are_known_by_the_labels_that_the_file_names() -> None:
    groups = read(written({"name": "a", "template": CPU, "max": 1, "selector": {"pool": "a"}}, expander="priority"))
    node = groups.groups[0].template.node
    assert node.metadata.labels["pool"] == "a"
    assert groups.of(node) is groups.groups[0]
    assert groups.settings.expander is Expander.PRIORITY


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ({"template": CPU, "max": 1, "min": 2}, "min 2 is larger than max 1"),
        ({"template": CPU, "max": 5, "min": 2, "available": 1}, "min 2 is larger than available 1"),
        ({"template": CPU, "max": 1, "name": "a b"}, "label dray.dev/node-group=a b: a valid label"),
        ({"template": CPU, "max": 1, "labels": {"not a key": "x"}}, "label not a key=x: name part"),
        ({"template": CPU, "max": -1}, "max: expected a number from 0, got -1"),
        ({"template": CPU, "max": 1, "price": -2}, "price: expected a number from 0, got -2"),
        ({"template": CPU, "max": 1, "available": -1}, "available: expected a number from 0, got -1"),
        ({"template": CPU, "max": 1, "colour": "red"}, "groups[0].colour: expected one of name, max, min, price"),
        ({"template": {**CPU, "gpus": 8}, "max": 1}, "template.gpus: expected one of capacity, labels, classes, pools"),
        ({"max": 1}, "expected one of profile, node and template, got none of them"),
        ({"max": 1, "template": CPU, "profile": "cpu"}, "got profile and template"),
        ({"max": 1, "profile": "nothing"}, "there is no profile nothing"),
        ({"max": 1, "node": "nowhere"}, "there is no node nowhere to copy"),
        ({"template": CPU}, "groups[0].max: it is missing"),
        ({"template": CPU, "max": "many"}, "groups[0].max: expected a whole number, got text"),
        (
            {"template": "cpu", "max": 1},
            "template: expected fields or nothing (capacity, labels, classes, pools, follows), got text",
        ),
        ({"template": {"capacity": {"cpu": "lots"}}, "max": 1}, "capacity: cpu: expected a quantity from 0"),
        ({"template": {"capacity": {"cpu": "-3"}}, "max": 1}, "capacity: cpu: expected a quantity from 0"),
        ({"template": pool(repeat={"n": -2}, name="d-{n}"), "max": 1}, "repeat: n: expected a number from 1"),
        ({"template": pool(name="Bad Name"), "max": 1}, 'spec.devices[0].name: Invalid value: "Bad Name"'),
        ({"template": {**CPU, "classes": [{"name": "c", "selector": "device.d =="}]}, "max": 1}, "expression: Invalid"),
        ({"template": CPU, "max": 1, "taints": [{"key": "x"}]}, "metadata.taints[0].effect: Required value"),
        ({"template": CPU, "max": 1, "name": "A_b"}, 'metadata.name: Invalid value: "A_b"'),
        ({"template": {**CPU, "pools": [{"driver": "d", "devices": [{"name": "a", "size": 3}]}]}, "max": 1}, "size"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(group: dict[str, Any], complaint: str) -> None:
    with pytest.raises(GroupError) as raised:
        read(written({"name": "a", **group}))
    assert complaint in str(raised.value)
    assert "groups[0]" in str(raised.value)


def test_two_groups_of_one_name_no_groups_and_no_yaml_are_told() -> None:
    group = {"name": "a", "template": CPU, "max": 1}
    for content, complaint in (
        (written(group, group), "groups[1] (a): name: another group has this name"),
        (written(), "groups: expected at least one group"),
        ("groups: [", "not valid YAML: line "),
        (
            written(group, expander="random"),
            "settings.expander: expected one of price, least-waste, priority, got random",
        ),
        (written(group, backoffSeconds=-1), "settings: backoffSeconds: expected a number from 0, got -1"),
    ):
        with pytest.raises(GroupError) as raised:
            read(content)
        assert complaint in str(raised.value)
