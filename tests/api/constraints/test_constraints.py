"""Constraints in the schema table: each of them is told, where and in which order, and updates keep what they found."""

from __future__ import annotations

import pytest

from dray.api import schema
from dray.api.constraints import judged
from dray.api.constraints.compiler import checker, suspicion
from dray.api.constraints.formats import FORMATS, is_format
from dray.api.paths import SPEC, Path
from dray.api.types import resource, scheduling

RESOURCE, SCHEDULING = "io.k8s.api.resource.v1.", "io.k8s.api.scheduling.v1beta1."


def told(message: str, value: object, old: object = None) -> list[tuple[str, str]]:
    return [(error.field, error.detail) for error in judged(message, value, old, SPEC)]


def test_every_constraint_of_the_table_compiles() -> None:
    with_constraints = {
        name for name, message in schema.table().items() if any(f.constraints for f in message.fields.values())
    }
    assert len(with_constraints) > 60
    for message in with_constraints:
        assert checker(message) is not None
        assert suspicion(message) is not None


def test_every_format_of_the_table_is_known() -> None:
    fields = [field for message in schema.table().values() for field in message.fields.values()]
    named = {tag.split("format=")[1] for field in fields for tag in field.constraints if "format=" in tag}
    assert named <= set(FORMATS)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("k8s-short-name", "a-1", "a.b"),
        ("k8s-long-name", "a.b", "A"),
        ("k8s-long-name-caseless", "A.b", "a_b"),
        ("k8s-label-key", "a.b/C", "a/b/c"),
        ("k8s-path-segment-name", "A b", "a/b"),
        ("k8s-uuid", "12345678-1234-1234-1234-123456789abc", "1234"),
        ("k8s-resource-pool-name", "a.b/c", "a//c"),
        ("k8s-resource-fully-qualified-name", "a.b/c_d", "c_d"),
        ("k8s-extended-resource-name", "a.b/c", "kubernetes.io/c"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert is_format(name)(good)
    assert not is_format(name)(bad)
    assert list(FORMATS[name](bad, Path("x")))


def test_a_union_is_told_before_its_fields() -> None:
    claim = scheduling.PodGroupResourceClaim(name="")
    assert told(SCHEDULING + "PodGroupResourceClaim", claim) == [
        ("spec", 'Invalid value: "": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'),
        ("spec.name", "Required value"),
    ]


def test_fields_are_told_in_the_order_of_their_numbers() -> None:
    toleration = resource.DeviceToleration(key="a/b/c", operator="X", effect="Y")
    assert [field for field, _ in told(RESOURCE + "DeviceToleration", toleration)] == [
        "spec.key",
        "spec.operator",
        "spec.effect",
    ]


def test_a_list_that_is_too_long_is_not_looked_into() -> None:
    counters = tuple(resource.CounterSet(name="") for _ in range(9))
    slice_ = resource.ResourceSliceSpec(driver="d", pool=resource.ResourcePool(name="p"), sharedCounters=counters)
    assert told(RESOURCE + "ResourceSliceSpec", slice_) == [
        ("spec.sharedCounters", "Too many: 9: must have at most 8 items")
    ]


def test_elements_have_keys() -> None:
    claims = resource.DeviceClaim(requests=(resource.DeviceRequest(name="a"), resource.DeviceRequest(name="a")))
    assert told(RESOURCE + "DeviceClaim", claims) == [("spec.requests[1]", 'Duplicate value: {"name":"a"}')]


def test_what_an_update_leaves_is_not_judged_again() -> None:
    bad = resource.DeviceToleration(key="a/b/c", operator="Exists")
    assert told(RESOURCE + "DeviceToleration", bad, bad) == []
    worse = resource.DeviceToleration(key="a/b/c", operator="Exists", effect="X")
    assert [field for field, _ in told(RESOURCE + "DeviceToleration", worse, bad)] == ["spec.effect"]


def test_a_gang_is_neither_set_nor_cleared() -> None:
    basic = scheduling.PodGroupSchedulingPolicy(basic=scheduling.BasicSchedulingPolicy())
    gang = scheduling.PodGroupSchedulingPolicy(gang=scheduling.GangSchedulingPolicy(minCount=1))
    message = SCHEDULING + "PodGroupSchedulingPolicy"
    assert told(message, gang, basic) == [
        ("spec.basic", "Invalid value: null: field is immutable"),
        ("spec.gang", "Invalid value: null: field cannot be set once created"),
    ]
    assert told(message, basic, gang)[1] == ("spec.gang", "Invalid value: null: field cannot be cleared once set")
    larger = scheduling.PodGroupSchedulingPolicy(gang=scheduling.GangSchedulingPolicy(minCount=2))
    assert told(message, larger, gang) == []
