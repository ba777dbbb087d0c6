"""Claims and templates: every rule, with the path and reason of its refusal."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.api.resources import DRA
from dray.api.validation import Complaint
from dray.api.wire import Tree
from tests.api.asking import Asking, faults

CLAIMS = Asking(DRA, "ResourceClaim")
REQUESTS = "spec.devices.requests"


def _asking_for(*requests: Tree, **devices: Any) -> Tree:
    return {"spec": {"devices": {"requests": list(requests), **devices}}}


def _exact(name: str = "r", **fields: Any) -> Tree:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def _selector(expression: str) -> Tree:
    return {"cel": {"expression": expression}}


def _config(**opaque: Any) -> Tree:
    return {"opaque": {"driver": "d.example.com", "parameters": {}, **opaque}}


GOOD = [
    _asking_for(),
    _asking_for(_exact(), _exact("s", allocationMode="All")),
    _asking_for(_exact(selectors=[_selector("true")], adminAccess=True)),
    _asking_for(_exact(tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "None"}])),
    _asking_for(_exact("a"), _exact("b"), constraints=[{"requests": ["a", "b"], "matchAttribute": "x.io/y"}]),
    _asking_for(_exact(), constraints=[{"distinctAttribute": "x.io/y"}]),
    _asking_for(_exact(), config=[_config(), {**_config(), "requests": ["r"]}]),
    _asking_for({"name": "r", "firstAvailable": [{"name": f"s{i}", "deviceClassName": "c"} for i in range(8)]}),
    _asking_for(
        _exact(derivedAttributes=[{"name": "x.io/y", "expression": "1"}]), constraints=[{"matchAttribute": "x.io/y"}]
    ),
    {"spec": {"reservedFor": {"resource": "jobs", "name": "j", "uid": "u"}}},
]


@pytest.mark.parametrize("tree", GOOD)
def test_good_claims(tree: Tree) -> None:
    assert CLAIMS.create(tree) == []


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
@pytest.mark.parametrize(("gate", "named"), [("true", False), ("false", True)])
def test_a_claim_without_a_request_is_told_that_alternatives_are_off(version: str, gate: str, named: bool) -> None:
    claims = Asking(DRA, "ResourceClaim", version, gates=FeatureGates.parse(f"DRAPrioritizedList={gate}"))
    alternatives = [] if gate == "true" else [{"name": "s", "deviceClassName": "c"}]
    (error,) = claims.create(_asking_for({"name": "r", "firstAvailable": alternatives}))
    assert str(error.field) == f"{REQUESTS}[0]"
    assert ("feature gate DRAPrioritizedList is off" in error.detail) is named


BAD: list[tuple[Tree, list[tuple[str, str]]]] = [
    (_asking_for(_exact(), _exact()), [(f"{REQUESTS}[1]", "Duplicate")]),
    (_asking_for(_exact("")), [(f"{REQUESTS}[0].name", "Invalid")]),
    (
        _asking_for({"name": "r", "exactly": {"deviceClassName": "A"}}),
        [(f"{REQUESTS}[0].exactly.deviceClassName", "Invalid")],
    ),
    (_asking_for(_exact(count=-1)), [(f"{REQUESTS}[0].exactly.count", "Invalid")]),
    (_asking_for(_exact(allocationMode="All", count=1)), [(f"{REQUESTS}[0].exactly.count", "Invalid")]),
    (_asking_for(_exact(allocationMode="Any")), [(f"{REQUESTS}[0].exactly.allocationMode", "NotSupported")]),
    (_asking_for(_exact(selectors=[{}])), [(f"{REQUESTS}[0].exactly.selectors[0].cel", "Required")]),
    (
        _asking_for({"name": "r", "firstAvailable": [{"name": f"s{i}", "deviceClassName": "c"} for i in range(9)]}),
        [(f"{REQUESTS}[0].firstAvailable", "TooMany")],
    ),
    (
        _asking_for({"name": "r", "firstAvailable": [{"name": "", "deviceClassName": "c"}]}),
        [(f"{REQUESTS}[0].firstAvailable[0].name", "Invalid")],
    ),
    (
        _asking_for(_exact(tolerations=[{"key": "a b", "operator": "Exists"}])),
        [(f"{REQUESTS}[0].exactly.tolerations[0].key", "Invalid")],
    ),
    (
        _asking_for(_exact(tolerations=[{"operator": "Exists", "value": "x"}])),
        [(f"{REQUESTS}[0].exactly.tolerations[0].value", "Invalid")],
    ),
    (
        _asking_for(_exact(tolerations=[{"key": "a", "value": "b c"}])),
        [(f"{REQUESTS}[0].exactly.tolerations[0].value", "Invalid")],
    ),
    (_asking_for(_exact(), constraints=[{}]), [("spec.devices.constraints[0]", "Required")]),
    (
        _asking_for(_exact(), constraints=[{"matchAttribute": "a/b/c"}]),
        [("spec.devices.constraints[0].matchAttribute", "Invalid")],
    ),
    (
        _asking_for(_exact(), constraints=[{"matchAttribute": "x.io/y", "distinctAttribute": "y"}]),
        [("spec.devices.constraints[0].distinctAttribute", "Invalid")],
    ),
    (
        _asking_for(_exact(), constraints=[{"matchAttribute": "/b"}]),
        [("spec.devices.constraints[0].matchAttribute", "Invalid")],
    ),
    (
        _asking_for(_exact(), constraints=[{"distinctAttribute": "x.io/" + "y" * 33}]),
        [("spec.devices.constraints[0].distinctAttribute", "TooLong")],
    ),
    (
        _asking_for(_exact(), constraints=[{"requests": ["r/a/b"], "matchAttribute": "x.io/y"}]),
        [("spec.devices.constraints[0].requests[0]", "Invalid")],
    ),
    (
        _asking_for(_exact(), constraints=[{"requests": ["r/a"], "matchAttribute": "x.io/y"}]),
        [("spec.devices.constraints[0].requests[0]", "Invalid")],
    ),
    (_asking_for(_exact(), config=[_config(driver="")]), [("spec.devices.config[0].opaque.driver", "Required")]),
    (_asking_for(_exact(), config=[_config(driver="a" * 64)]), [("spec.devices.config[0].opaque.driver", "TooLong")]),
    (
        _asking_for(_exact(), config=[_config(driver="_" * 64)]),
        [("spec.devices.config[0].opaque.driver", "Invalid"), ("spec.devices.config[0].opaque.driver", "TooLong")],
    ),
    (
        _asking_for(_exact(), config=[_config(parameters=None)]),
        [("spec.devices.config[0].opaque.parameters", "Required")],
    ),
    (
        _asking_for(_exact(), config=[_config(parameters={"a": "x" * 10240})]),
        [("spec.devices.config[0].opaque.parameters", "TooLong")],
    ),
    (_asking_for(_exact(), config=[_config()] * 33), [("spec.devices.config", "TooMany")]),
    (
        _asking_for(_exact(derivedAttributes=[{"name": "x.io/y", "expression": ""}])),
        [
            (f"{REQUESTS}[0].exactly.derivedAttributes[0].name", "Invalid"),
            (f"{REQUESTS}[0].exactly.derivedAttributes[0].expression", "Required"),
        ],
    ),
    (
        {"spec": {"reservedFor": {"resource": "jobs"}}},
        [("spec.reservedFor.name", "Required"), ("spec.reservedFor.uid", "Required")],
    ),
]


@pytest.mark.parametrize(("tree", "expected"), BAD)
def test_bad_claims(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(CLAIMS.create(tree)) == expected


@pytest.mark.parametrize(("tree", "expected"), BAD)
def test_templates_follow_the_rules_of_claims(tree: Tree, expected: list[tuple[str, str]]) -> None:
    wrapped = {"spec": tree}
    assert faults(Asking(DRA, "ResourceClaimTemplate").create(wrapped)) == [
        (f"spec.{path}", why) for path, why in expected
    ]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"allocationMode": "Some"}, "allocationMode"),
        ({"selectors": [_selector("true")] * 33}, "selectors"),
        ({"tolerations": [{"key": "k", "effect": "Some"}]}, "tolerations[0].effect"),
        ({"deviceClassName": "Bad"}, "exactly.deviceClassName"),
        ({"tolerations": [{"key": "k", "value": "a b"}]}, "exactly.tolerations[0].value"),
    ],
)
def test_refusals_in_v1beta1_name_some_fields_as_that_version_does(request_: Tree, field: str) -> None:
    tree = _asking_for({"name": "r", "deviceClassName": "c", **request_})
    [error] = Asking(DRA, "ResourceClaim", "v1beta1").create(tree)
    assert error.field == f"{REQUESTS}[0].{field}"
    [error] = Asking(DRA, "ResourceClaimTemplate", "v1beta1").create({"spec": tree})
    assert error.field == f"spec.{REQUESTS}[0].{field}"


def test_selectors_are_checked_where_they_are_new() -> None:
    def check(expression: str) -> Complaint | None:
        return {
            "bad": Complaint("Invalid", "compilation failed"),
            "costly": Complaint("Forbidden", "too complex, exceeds cost limit"),
            "broken": Complaint("InternalError", "program instantiation failed"),
        }.get(expression)

    claims = Asking(DRA, "ResourceClaim", check_selector=check)
    tree = _asking_for(
        _exact(selectors=[_selector("bad"), _selector("costly"), _selector("broken"), _selector("good")])
    )
    path = f"{REQUESTS}[0].exactly.selectors"
    assert faults(claims.create(tree)) == [
        (f"{path}[0].cel.expression", "Invalid"),
        (f"{path}[1].cel.expression", "Forbidden"),
        (f"{path}[2].cel.expression", "InternalError"),
    ]
    assert claims.update(Asking(DRA, "ResourceClaim").made(tree), tree) == [], "an unchanged expression stays good"


def test_specs_never_change() -> None:
    assert faults(CLAIMS.update(_asking_for(_exact()), _asking_for(_exact(count=2)))) == [("spec", "Invalid")]
    templates = Asking(DRA, "ResourceClaimTemplate")
    old, new = {"spec": _asking_for(_exact())}, {"spec": _asking_for(_exact("other"))}
    assert faults(templates.update(old, new)) == [("spec", "Invalid")]
    assert templates.update(old, {**old, "metadata": {"labels": {"a": "b"}}}) == []


@pytest.mark.parametrize(
    "field", ["name", "generateName", "namespace", "uid", "finalizers", "ownerReferences", "generation"]
)
def test_template_metadata_is_only_labels_and_annotations(field: str) -> None:
    value: Any = {"finalizers": ["x.io/y"], "ownerReferences": [{"name": "o"}], "generation": 1}.get(field, "v")
    tree = {"spec": {**_asking_for(_exact()), "metadata": {field: value}}}
    assert faults(Asking(DRA, "ResourceClaimTemplate").create(tree)) == [(f"spec.metadata.{field}", "Forbidden")]


# Status

RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
POD = {"resource": "pods", "name": "p", "uid": "1"}


def _allocation(*results: Tree, **fields: Any) -> Tree:
    return {"devices": {"results": list(results) or [RESULT], **fields.pop("devices", {})}, **fields}


def _status(status: Tree, before: Tree | None = None, deleting: bool = False) -> list[tuple[str, str]]:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    old = CLAIMS.made({**_asking_for(_exact()), "metadata": metadata})
    if before is not None:
        old = CLAIMS.changed(old, {"metadata": metadata, "status": before}, "status")
    return faults(CLAIMS.update(old, {"metadata": metadata, "status": status}, "status"))


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"allocation": _allocation()},
        {"allocation": _allocation(), "reservedFor": [POD, {**POD, "uid": "2"}]},
        {"allocation": _allocation(devices={"config": [{"source": "FromClass", **_config()}]})},
        {"allocation": _allocation({**RESULT, "shareID": "11111111-2222-3333-4444-555555555555"})},
        {"allocation": _allocation({**RESULT, "bindingConditions": ["a"], "bindingFailureConditions": ["b"]})},
        {
            "allocation": _allocation(),
            "devices": [
                {
                    **{name: RESULT[name] for name in ("driver", "pool", "device")},
                    "data": {"a": 1},
                    "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"]},
                }
            ],
        },
    ],
)
def test_good_statuses(status: Tree) -> None:
    assert _status(status) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"reservedFor": [POD]}, [("status.reservedFor", "Forbidden")]),
        ({"allocation": _allocation(), "reservedFor": [POD, POD]}, [("status.reservedFor[1]", "Duplicate")]),
        (
            {"allocation": _allocation(), "reservedFor": [{"uid": "1"}]},
            [
                ("status.reservedFor[0].resource", "Required"),
                ("status.reservedFor[0].name", "Required"),
            ],
        ),
        (
            {"allocation": _allocation({**RESULT, "driver": ""})},
            [("status.allocation.devices.results[0].driver", "Required")],
        ),
        (
            {"allocation": _allocation({**RESULT, "pool": ""})},
            [("status.allocation.devices.results[0].pool", "Required")],
        ),
        (
            {"allocation": _allocation({**RESULT, "pool": "a//b"})},
            [("status.allocation.devices.results[0].pool", "Invalid")],
        ),
        (
            {"allocation": _allocation({**RESULT, "shareID": "x"})},
            [("status.allocation.devices.results[0].shareID", "Invalid")],
        ),
        (
            {"allocation": _allocation({**RESULT, "bindingConditions": ["a"]})},
            [("status.allocation.devices.results[0].bindingFailureConditions", "Invalid")],
        ),
        ({"allocation": _allocation(*[RESULT] * 33)}, [("status.allocation.devices.results", "TooMany")]),
        (
            {"allocation": _allocation(devices={"config": [_config()]})},
            [("status.allocation.devices.config[0].source", "Required")],
        ),
        (
            {"allocation": _allocation(devices={"config": [{"source": "X", **_config()}]})},
            [("status.allocation.devices.config[0].source", "NotSupported")],
        ),
        (
            {"allocation": _allocation(nodeSelector={"nodeSelectorTerms": []})},
            [("status.allocation.nodeSelector.nodeSelectorTerms", "Required")],
        ),
        (
            {"allocation": _allocation(), "devices": [{**RESULT, "request": None, "device": "other"}]},
            [("status.devices[0]", "Invalid")],
        ),
        (
            {
                "allocation": _allocation(),
                "devices": [{"driver": "d.example.com", "pool": "p", "device": "x", "data": []}],
            },
            [("status.devices[0].data", "Invalid")],
        ),
        (
            {
                "allocation": _allocation(),
                "devices": [
                    {
                        "driver": "d.example.com",
                        "pool": "p",
                        "device": "x",
                        "networkData": {
                            "interfaceName": "x" * 257,
                            "hardwareAddress": "x" * 129,
                            "ips": ["10.0.0.1", "10.0.0.01/8"],
                        },
                        "conditions": [
                            {"type": "T", "status": "Maybe", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": ""}
                        ],
                    }
                ],
            },
            [
                ("status.devices[0].conditions[0].status", "NotSupported"),
                ("status.devices[0].conditions[0].reason", "Required"),
                ("status.devices[0].networkData.ips[0]", "Invalid"),
                ("status.devices[0].networkData.ips[1]", "Invalid"),
                ("status.devices[0].networkData.interfaceName", "TooLong"),
                ("status.devices[0].networkData.hardwareAddress", "TooLong"),
            ],
        ),
    ],
)
def test_bad_statuses(status: Tree, expected: list[tuple[str, str]]) -> None:
    for device in status.get("devices", ()):
        device.pop("request", None)
    assert _status(status) == expected


def test_an_allocation_stays_as_it_is_until_it_is_given_back() -> None:
    before = {"allocation": _allocation(), "reservedFor": [POD]}
    assert _status({"allocation": _allocation({**RESULT, "device": "y"})}, before) == [("status.allocation", "Invalid")]
    assert _status({"allocation": _allocation(), "reservedFor": []}, before) == []
    assert _status({}, before) == []


def test_a_claim_that_is_going_takes_no_new_users() -> None:
    before = {"allocation": _allocation(), "reservedFor": [POD]}
    more = {"allocation": _allocation(), "reservedFor": [POD, {**POD, "uid": "2"}]}
    assert _status(more, before, deleting=True) == [("status.reservedFor", "Forbidden")]
    assert _status(before, before, deleting=True) == []
