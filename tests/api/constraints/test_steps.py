"""Steps in the schema table: what Kubernetes checks in code, in its order, for new objects and for updates."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dray.api import schema
from dray.api.constraints import checked
from dray.api.constraints.formats import FORMATS
from dray.api.constraints.steps import steps_of
from dray.api.errors import MOST_ERRORS
from dray.api.paths import SPEC
from dray.api.types import core, flowcontrol, networking, storage

FLOW, NETWORKING, STORAGE = "io.k8s.api.flowcontrol.v1.", "io.k8s.api.networking.v1.", "io.k8s.api.storage.v1."


def told(message: str, value: Any, old: Any = None) -> list[tuple[str, str]]:
    return [(error.field, error.detail) for error in checked(message, value, SPEC, old)]


def test_every_step_of_the_table_compiles() -> None:
    """Compiling finds the functions and formats that steps name."""
    with_steps = [name for name, message in schema.table().items() if message.steps]
    assert len(with_steps) > 100
    for name in with_steps:
        assert steps_of(name) is not None or steps_of(name, of_status=True) is not None
        formats = {tag.split("format=")[1] for step in schema.message(name).steps for tag in step if "format=" in tag}
        assert formats <= set(FORMATS)


def test_a_condition_on_another_field_decides_what_is_required_and_what_is_forbidden() -> None:
    user = flowcontrol.UserSubject(name="")
    assert told(FLOW + "Subject", flowcontrol.Subject(kind="Group", user=user)) == [
        ("spec.group", "Required value: group is required when subject kind is 'Group'"),
        ("spec.user", "Forbidden: user is forbidden when subject kind is not 'User'"),
    ]
    assert told(FLOW + "Subject", flowcontrol.Subject(kind="User", user=user)) == [("spec.user.name", "Required value")]


def test_what_breaks_a_step_that_stops_ends_the_message() -> None:
    assert told(FLOW + "Subject", flowcontrol.Subject(kind="Cat", user=flowcontrol.UserSubject(name=""))) == [
        ("spec.kind", 'Unsupported value: "Cat": supported values: "Group", "ServiceAccount", "User"')
    ]


def test_the_first_of_two_like_elements_is_judged_in_full() -> None:
    requests = (
        storage.TokenRequest(audience="a", expirationSeconds=1),
        storage.TokenRequest(audience="a", expirationSeconds=1),
    )
    spec = storage.CSIDriverSpec(tokenRequests=requests)
    assert [field for field, _ in told(STORAGE + "CSIDriverSpec", spec)] == [
        "spec.tokenRequests[0].expirationSeconds",
        "spec.tokenRequests[1].audience",
    ]


def test_updates_are_held_to_what_may_not_change() -> None:
    old = storage.CSIDriverSpec(attachRequired=True)
    assert told(STORAGE + "CSIDriverSpec", replace(old, attachRequired=False), old) == [
        ("spec.attachedRequired", "Invalid value: false: field is immutable")
    ]
    node = core.NodeSpec(providerID="a")
    assert told(schema.CORE + "NodeSpec", node, core.NodeSpec()) == []
    assert [field for field, _ in told(schema.CORE + "NodeSpec", core.NodeSpec(providerID="b"), node)] == [
        "spec.providerID"
    ]


def test_steps_for_new_objects_are_not_taken_at_an_update() -> None:
    range_ = networking.ServiceCIDRSpec(cidrs=("no network",))
    assert [field for field, _ in told(NETWORKING + "ServiceCIDRSpec", range_)] == ["spec.cidrs[0]"]
    assert told(NETWORKING + "ServiceCIDRSpec", range_, range_) == []


def test_no_more_errors_are_found_than_anybody_is_told() -> None:
    spec = storage.CSIDriverSpec(volumeLifecycleModes=("x",) * 1000)
    assert len(told(STORAGE + "CSIDriverSpec", spec)) == MOST_ERRORS + 1
