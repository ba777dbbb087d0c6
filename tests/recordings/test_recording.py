"""Recordings: what is kept of a cluster, what never leaves it, and files that cannot be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.types.core import ConfigMap, Node, Pod
from dray.api.types.meta import ObjectMeta
from dray.api.wire import Tree, Wire
from dray.recordings.recording import TYPES, Recording, RecordingError, from_bytes, record, to_bytes
from dray.sim.cluster import Cluster
from tests.sim.test_cluster import claim_spec, holders, machines, places, pod, template

SECRET = "hunter2"
TIME = "2026-01-01T00:00:00Z"


def private_pod(name: str, gpus: int = 1) -> Tree:
    """A pod with much that must not leave its cluster."""
    tree = pod(name, gpus)
    tree["metadata"]["annotations"] = {"note": SECRET}
    tree["metadata"]["managedFields"] = [{"manager": SECRET}]
    container = tree["spec"]["containers"][0]
    container |= {
        "image": SECRET,
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "livenessProbe": {"exec": {"command": [SECRET]}},
    }
    tree["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": SECRET}}]
    tree["spec"]["imagePullSecrets"] = [{"name": SECRET}]
    tree["spec"]["serviceAccountName"] = SECRET
    return tree


def private_claim() -> Tree:
    spec = claim_spec(1)
    spec["devices"]["config"] = [{"opaque": {"driver": "gpu.example.com", "parameters": {"password": SECRET}}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": "default", "annotations": {"a": SECRET}},
        "spec": spec,
    }


def busy() -> Cluster:
    """A cluster with pods that have devices and one that waits."""
    made = Cluster([*machines(2), template(1), template(2), private_claim()])
    selected = {"kubernetes.io/hostname": "node-1"}
    made.add(
        private_pod("first", 2), pod("second", 1, nodeSelector=selected), pod("third", 2), pod("own", claim="mine")
    )
    made.settle()
    return made


def objects_of(made: Cluster) -> list[Wire]:
    return [one for type_ in TYPES for one in made.all(type_)]


def recorded(anonymous: bool = False) -> Recording:
    return record(objects_of(busy()), time=TIME, source="test", anonymous=anonymous)


def outcome(made: Cluster) -> tuple[int, int, int]:
    """How many pods have a node, how many wait, how many devices are held."""
    made.settle()
    return sum(bool(place) for place in places(made).values()), len(made.waiting()), len(holders(made))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_recording_is_the_cluster_again(compressed: bool) -> None:
    read = from_bytes(to_bytes(recorded(), compressed=compressed))
    assert (read.time, read.source, read.anonymous) == (TIME, "test", False)
    again, first = Cluster(read.typed()), busy()
    assert outcome(again) == outcome(first)
    assert places(again) == places(first)
    assert holders(again).keys() == holders(first).keys()


def test_what_is_private_is_not_recorded() -> None:
    assert SECRET in str(objects_of(busy()))
    assert SECRET not in to_bytes(recorded()).decode()


def test_objects_that_scheduling_does_not_depend_on_are_left_out() -> None:
    found = record([ConfigMap(metadata=ObjectMeta(name="c"))], time=TIME, source="")
    assert found.objects == ()


def test_an_anonymous_recording_has_no_names_and_the_same_outcome() -> None:
    read = from_bytes(to_bytes(recorded(anonymous=True)))
    text = to_bytes(read).decode()
    for name in ("first", "second", "third", "mine", "node-0", "node-1", "test", "gpus-2"):
        assert f'"{name}' not in text
    for kept in ("gpu.example.com", "a100", "default", "kubernetes.io/hostname", "resource.kubernetes.io/pcieRoot"):
        assert kept in text
    assert read.anonymous
    again = Cluster(read.typed())
    assert outcome(again) == outcome(busy())


def test_numbers_follow_the_order_of_names() -> None:
    """So ties are broken as before."""
    plain, hidden = recorded(), recorded(anonymous=True)

    def pods(found: Recording) -> list[str]:
        return [one.metadata.name for one in found.typed() if isinstance(one, Pod)]

    order = sorted(zip(pods(plain), pods(hidden), strict=True))
    assert [number for _, number in order] == sorted(pods(hidden))


def test_names_hide_the_same_way_wherever_they_stand() -> None:
    hidden = Cluster(recorded(anonymous=True).typed())
    nodes = {one.metadata.name for one in hidden.all(Node)}
    selected = [one for one in hidden.all(Pod) if one.spec.nodeSelector]
    assert selected
    assert [one.spec.nodeName for one in selected] == [
        one.spec.nodeSelector["kubernetes.io/hostname"] for one in selected
    ]
    assert {one.spec.nodeName for one in hidden.all(Pod) if one.spec.nodeName} <= nodes


@given(st.data())
def test_a_recording_that_is_cut_off_is_refused(data: st.DataObject) -> None:
    content = to_bytes(CUT, compressed=data.draw(st.booleans()))
    end = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(RecordingError, match=r"cut off|no recording"):
        from_bytes(content[:end])


CUT = record([object_of(template(1), FeatureGates())], time=TIME, source="cut")


def edited(**changes: Any) -> bytes:
    return json.dumps({**json.loads(to_bytes(CUT)), **changes}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no recording"),
        (b"apiVersion: v1", "no recording"),
        (b"[]", "expected an object of kind Recording"),
        (b'{"kind": "List"}', "expected an object of kind Recording"),
        (edited(version=2), "version: 2 is not known; this dray reads version 1"),
        (edited(objects=[]), "was edited"),
        (edited(objects=3), r"was edited: Expected `array`, got `int` - at `\$.objects`"),
    ],
)
def test_what_is_no_recording_is_refused_with_a_reason(content: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        from_bytes(content)


def test_other_white_space_is_no_edit() -> None:
    assert to_bytes(from_bytes(json.dumps(json.loads(to_bytes(CUT)), indent=4).encode())) == to_bytes(CUT)
