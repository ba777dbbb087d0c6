"""Priority classes, workloads and groups of pods, in both versions."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.resources import DRA, SCHEDULING
from dray.api.wire import Tree
from tests.api.asking import Asking, faults

GROUPS = Asking(SCHEDULING, "PodGroup")
OLD_GROUPS = Asking(SCHEDULING, "PodGroup", "v1alpha1")
WORKLOADS = Asking(SCHEDULING, "Workload")
CLASSES = Asking(SCHEDULING, "PriorityClass")
BASIC = {"basic": {}}


def _group(**fields: Any) -> Tree:
    return {"spec": {"schedulingPolicy": BASIC, **fields}}


def _template(name: str = "t", **fields: Any) -> Tree:
    return {"name": name, "schedulingPolicy": BASIC, **fields}


def _workload(*templates: Tree, **fields: Any) -> Tree:
    return {"spec": {"podGroupTemplates": list(templates), **fields}}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (_group(), []),
        (_group(schedulingPolicy={"gang": {"minCount": 2}}), []),
        (_group(workloadRef={"workloadName": "w", "templateName": "t"}), []),
        (_group(schedulingPolicy={}), [("spec.schedulingPolicy", "Invalid")]),
        (_group(schedulingPolicy={"gang": {"minCount": -1}}), [("spec.schedulingPolicy.gang.minCount", "Invalid")]),
        (_group(workloadRef={"workloadName": "w"}), [("spec.workloadRef.templateName", "Required")]),
        (
            _group(workloadRef={"workloadName": "W", "templateName": "a.b"}),
            [
                ("spec.workloadRef.workloadName", "Invalid"),
                ("spec.workloadRef.templateName", "Invalid"),
            ],
        ),
        (
            _group(resourceClaims=[{"name": "c", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
            [("spec.resourceClaims[0]", "Invalid")],
        ),
        (_group(resourceClaims=[{"resourceClaimName": "a"}]), [("spec.resourceClaims[0].name", "Required")]),
        (_group(disruptionMode={}), [("spec.disruptionMode", "Invalid")]),
        (_group(disruptionMode={"single": {}, "all": {}}), [("spec.disruptionMode", "Invalid")]),
        (_group(priority=1_000_000_001), [("spec.priority", "Invalid")]),
        (_group(priorityClassName="A"), [("spec.priorityClassName", "Invalid")]),
        (_group(preemptionPolicy="Maybe"), [("spec.preemptionPolicy", "NotSupported")]),
        (
            _group(schedulingConstraints={"topology": [{"key": ""}]}),
            [("spec.schedulingConstraints.topology[0].key", "Required")],
        ),
    ],
)
def test_groups(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(GROUPS.create(tree)) == expected


def test_a_gang_may_change_its_size_and_nothing_else() -> None:
    gang = _group(schedulingPolicy={"gang": {"minCount": 2}})
    assert GROUPS.update(gang, _group(schedulingPolicy={"gang": {"minCount": 3}})) == []
    assert faults(GROUPS.update(gang, _group())) == [
        ("spec.schedulingPolicy.basic", "Invalid"),
        ("spec.schedulingPolicy.gang", "Invalid"),
    ]
    claims = [{"name": "c", "resourceClaimName": "x"}]
    assert faults(GROUPS.update(_group(), _group(resourceClaims=claims))) == [("spec.resourceClaims", "Invalid")]
    reference = {"workloadName": "w", "templateName": "t"}
    assert faults(GROUPS.update(_group(), _group(workloadRef=reference))) == [("spec.workloadRef", "Invalid")]


def test_statuses_of_groups_are_about_their_claims() -> None:
    group = _group(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])
    good = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}
    assert GROUPS.update(group, {"status": good}, "status") == []
    bad = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "X"}]}
    assert faults(GROUPS.update(group, {"status": bad}, "status")) == [
        ("status.resourceClaimStatuses[0].name", "Invalid"),
        ("status.resourceClaimStatuses[0].resourceClaimName", "Invalid"),
    ]


def test_the_older_version_has_its_own_names_and_no_limit_of_claims() -> None:
    claims = [{"name": f"c{i}", "resourceClaimName": "x"} for i in range(6)]
    spec = {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}, "resourceClaims": claims}
    assert OLD_GROUPS.create({"spec": spec}) == []
    assert faults(GROUPS.create(_group(resourceClaims=claims))) == [("spec.resourceClaims", "TooMany")]
    assert OLD_GROUPS.create({"spec": {"workloadRef": {"name": "w"}}}) == []
    wrong = {"policy": {"gang": {"minCount": 0}}, "workloadRef": {"name": "W"}, "podGroupTemplateRef": {"name": "T"}}
    assert faults(OLD_GROUPS.create({"spec": wrong})) == [
        ("spec.workloadRef.name", "Invalid"),
        ("spec.podGroupTemplateRef.name", "Invalid"),
        ("spec.policy.gang.minCount", "Required"),
    ]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (_workload(_template()), []),
        (_workload(_template(), controllerRef={"apiGroup": "batch", "kind": "Job", "name": "j"}), []),
        (_workload(*[_template(f"t{i}") for i in range(9)]), [("spec.podGroupTemplates", "TooMany")]),
        (_workload(_template("")), [("spec.podGroupTemplates[0].name", "Required")]),
        (_workload(_template(schedulingPolicy={})), [("spec.podGroupTemplates[0].schedulingPolicy", "Invalid")]),
        (
            _workload(_template(), controllerRef={"kind": "a/b"}),
            [
                ("spec.controllerRef.kind", "Invalid"),
                ("spec.controllerRef.name", "Required"),
            ],
        ),
        (
            _workload(_template(resourceClaims=[{"name": f"c{i}", "resourceClaimName": "x"} for i in range(5)])),
            [("spec.podGroupTemplates[0].resourceClaims", "TooMany")],
        ),
        (
            {"spec": {"compositePodGroupTemplates": [{"name": "c", "schedulingPolicy": BASIC}]}},
            [("spec.compositePodGroupTemplates[0]", "Required")],
        ),
        (
            _workload(
                _template(),
                compositePodGroupTemplates=[
                    {"name": "c", "schedulingPolicy": BASIC, "podGroupTemplates": [_template()]}
                ],
            ),
            [("spec", "Invalid")],
        ),
    ],
)
def test_workloads(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(WORKLOADS.create(tree)) == expected


def test_templates_neither_come_nor_go() -> None:
    old = _workload(_template(), controllerRef={"kind": "Job", "name": "j"})
    assert WORKLOADS.update(old, old) == []
    assert faults(WORKLOADS.update(old, _workload(_template()))) == [("spec.controllerRef", "Invalid")]
    gang = _template(schedulingPolicy={"gang": {"minCount": 2}})
    bigger = _template(schedulingPolicy={"gang": {"minCount": 5}})
    assert WORKLOADS.update(_workload(gang), _workload(bigger)) == []
    assert faults(WORKLOADS.update(_workload(gang), _workload(gang, _template("u")))) == [
        ("spec.podGroupTemplates[1]", "Forbidden")
    ]


def test_templates_inside_composite_ones_stay_as_they_are() -> None:
    def workload(claim: str, *more: Tree) -> Tree:
        template = _template(resourceClaims=[{"name": "a", "resourceClaimTemplateName": claim}])
        inner = {"name": "inner", "schedulingPolicy": BASIC, "podGroupTemplates": [template, *more]}
        outer = {"name": "outer", "schedulingPolicy": BASIC, "compositePodGroupTemplates": [inner]}
        return {"spec": {"compositePodGroupTemplates": [outer]}}

    where = "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates"
    assert WORKLOADS.update(workload("t"), workload("t")) == []
    assert faults(WORKLOADS.update(workload("t"), workload("u"))) == [(f"{where}[0].resourceClaims", "Invalid")]
    assert faults(WORKLOADS.update(workload("t"), workload("t", _template("new")))) == [(f"{where}[1]", "Forbidden")]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("high", 1_000_000_000, []),
        ("high", 1_000_000_001, [("value", "Forbidden")]),
        ("system-node-critical", 2_000_001_000, []),
        ("system-node-critical", 1, [("metadata.name", "Forbidden")]),
        ("system-mine", 1, [("metadata.name", "Forbidden")]),
    ],
)
def test_priority_classes(name: str, value: int, expected: list[tuple[str, str]]) -> None:
    assert faults(CLASSES.create({"metadata": {"name": name}, "value": value})) == expected


def test_priorities_do_not_change() -> None:
    assert faults(CLASSES.update({"value": 1}, {"value": 2})) == [("value", "Forbidden")]
    assert faults(CLASSES.update({"value": 1}, {"value": 1, "preemptionPolicy": "Never"})) == [
        ("preemptionPolicy", "Invalid")
    ]


def test_pool_requests_of_the_older_version_may_write_drivers_with_a_slash() -> None:
    tree = {"spec": {"driver": "example.com/gpu"}}
    assert Asking(DRA, "ResourcePoolStatusRequest", "v1alpha1").create(tree) == []
    assert faults(Asking(DRA, "ResourcePoolStatusRequest").create(tree)) == [("spec.driver", "Invalid")]
