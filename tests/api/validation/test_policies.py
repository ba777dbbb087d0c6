"""Admission policies and their bindings."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.api import validation
from dray.api.resources import ADMISSION
from dray.api.validation import Complaint, ExpressionUse, PolicyCheck
from dray.api.wire import Tree
from tests.api.asking import ALL, Asking, faults

RULE = {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
SPEC = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
BINDING = {"policyName": "p", "validationActions": ["Deny"]}


class Checker:
    """Refuses the word "bad", and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[ExpressionUse, str, str]] = []
        self.told: list[tuple[bool, bool]] = []

    def __call__(self, params: bool, composed: bool) -> PolicyCheck:
        self.told.append((params, composed))

        def check(use: ExpressionUse, expression: str, name: str) -> Complaint | None:
            self.asked.append((use, expression, name))
            if expression == "broken":
                return Complaint("InternalError", "cannot be set up")
            return Complaint("Invalid", "is bad") if expression == "bad" else None

        return check


class Policies(Asking):
    """Asks about policies, with a checker of expressions."""

    def __init__(self) -> None:
        super().__init__(ADMISSION, "ValidatingAdmissionPolicy")
        self.checker = Checker()
        self._context = validation.Context(ALL, version="v1", policy_expressions=self.checker)

    def faults(self, **spec: Any) -> list[tuple[str, str]]:
        return faults(self.create({"spec": {**SPEC, **spec}}))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"matchConstraints": None}, [("spec.matchConstraints", "Required")]),
        ({"matchConstraints": {}}, [("spec.matchConstraints.resourceRules", "Required")]),
        ({"validations": []}, [("spec.validations", "Required"), ("spec.auditAnnotations", "Required")]),
        ({"failurePolicy": "Maybe"}, [("spec.failurePolicy", "NotSupported")]),
        ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, []),
        ({"paramKind": {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}}, []),
        ({"paramKind": {}}, [("spec.paramKind.apiVersion", "Required"), ("spec.paramKind.kind", "Required")]),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "No Kind"}},
            [("spec.paramKind.apiVersion", "Invalid"), ("spec.paramKind.kind", "Invalid")],
        ),
        ({"validations": [{"expression": " "}]}, [("spec.validations[0].expression", "Required")]),
        (
            {"validations": [{"expression": "true", "message": " ", "messageExpression": " ", "reason": "Nope"}]},
            [
                ("spec.validations[0].messageExpression", "Invalid"),
                ("spec.validations[0].message", "Invalid"),
                ("spec.validations[0].reason", "NotSupported"),
            ],
        ),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, [("spec.validations[0].message", "Invalid")]),
        (
            {"variables": [{"name": "a-b", "expression": "1"}, {"name": "in", "expression": "1"}, {"name": ""}]},
            [
                ("spec.variables[0].name", "Invalid"),
                ("spec.variables[1].name", "Invalid"),
                ("spec.variables[2].name", "Required"),
                ("spec.variables[2].expression", "Required"),
            ],
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": ""}, {"name": "?"}]},
            [
                ("spec.matchConditions[1].expression", "Required"),
                ("spec.matchConditions[1].name", "Duplicate"),
                ("spec.matchConditions[2].expression", "Required"),
                ("spec.matchConditions[2].name", "Invalid"),
            ],
        ),
        (
            {"matchConditions": [{"name": f"c{n}", "expression": "true"} for n in range(65)]},
            [("spec.matchConditions", "TooMany")],
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "''"}, {"key": "k", "valueExpression": ""}]},
            [
                ("spec.auditAnnotations[1].valueExpression", "Required"),
                ("spec.auditAnnotations[1].key", "Duplicate"),
            ],
        ),
        (
            {"auditAnnotations": [{"key": "?", "valueExpression": "'" + "a" * 6000 + "'"}]},
            [("spec.auditAnnotations[0].key", "Invalid"), ("spec.auditAnnotations[0].valueExpression", "Required")],
        ),
        (
            {"auditAnnotations": [{"key": f"k{n}", "valueExpression": "''"} for n in range(21)]},
            [("spec.auditAnnotations", "Invalid")],
        ),
    ],
)
def test_new_policies(spec: Tree, expected: list[tuple[str, str]]) -> None:
    assert Policies().faults(**spec) == expected


def test_rules_and_selectors_of_a_policy() -> None:
    match = {
        "resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c"]}],
        "excludeResourceRules": [{**RULE, "operations": []}],
        "matchPolicy": "Roughly",
        "objectSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]},
    }
    assert Policies().faults(matchConstraints=match) == [
        ("spec.matchConstraints.matchPolicy", "NotSupported"),
        ("spec.matchConstraints.objectSelector.matchExpressions[0].operator", "Invalid"),
        ("spec.matchConstraints.resourceRules[0].resourceNames[2]", "Invalid"),
        ("spec.matchConstraints.resourceRules[0].resourceNames[1]", "Duplicate"),
        ("spec.matchConstraints.excludeResourceRules[0].operations", "Required"),
    ]


BAD = {
    "matchConditions": [{"name": "c", "expression": " bad "}],
    "variables": [{"name": "v", "expression": "bad"}],
    "validations": [{"expression": "bad", "messageExpression": "bad"}, {"expression": "broken"}],
    "auditAnnotations": [{"key": "k", "valueExpression": "bad"}],
}


def test_every_expression_is_checked_at_its_place() -> None:
    policies = Policies()
    found = policies.create({"spec": {**SPEC, **BAD, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}})
    assert [str(error) for error in found] == [
        'spec.matchConditions[0].expression: Invalid value: "bad": is bad',
        'spec.variables[0].expression: Invalid value: "bad": is bad',
        'spec.validations[0].expression: Invalid value: "bad": is bad',
        'spec.validations[0].messageExpression: Invalid value: "bad": is bad',
        "spec.validations[1].expression: Internal error: cannot be set up",
        'spec.auditAnnotations[0].valueExpression: Invalid value: "bad": is bad',
    ]
    assert policies.checker.told == [(True, True)]
    assert policies.checker.asked[:2] == [("condition", "bad", ""), ("variable", "bad", "v")]


def test_an_expression_that_was_there_is_not_complained_about_again() -> None:
    policies = Policies()
    old = {"spec": {**SPEC, **BAD}}
    assert policies.update(old, copy.deepcopy(old)) == []
    moved = {**SPEC, "variables": [{"name": "w", "expression": "bad"}], "validations": [{"expression": "true"}]}
    assert policies.update(old, {"spec": moved}) == []
    fresh = {**SPEC, "validations": [{"expression": "bad"}]}
    assert faults(policies.update({"spec": SPEC}, {"spec": fresh})) == [("spec.validations[0].expression", "Invalid")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"policyName": ""}, [("spec.policyName", "Required")]),
        ({"validationActions": []}, [("spec.validationActions", "Required")]),
        (
            {"validationActions": ["Deny", "Warn", "X", "Deny"]},
            [
                ("spec.validationActions[2]", "NotSupported"),
                ("spec.validationActions[3]", "Duplicate"),
                ("spec.validationActions", "Invalid"),
            ],
        ),
        ({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}, []),
        ({"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}, []),
        ({"paramRef": {}}, [("spec.paramRef", "Required"), ("spec.paramRef.parameterNotFoundAction", "Required")]),
        (
            {"paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Shrug"}},
            [
                ("spec.paramRef.name", "Invalid"),
                ("spec.paramRef.name", "Forbidden"),
                ("spec.paramRef.selector", "Forbidden"),
                ("spec.paramRef.parameterNotFoundAction", "NotSupported"),
            ],
        ),
        (
            {"matchResources": {"resourceRules": [{}]}},
            [
                (f"spec.matchResources.resourceRules[0].{field}", "Required")
                for field in ("operations", "apiGroups", "apiVersions", "resources")
            ],
        ),
    ],
)
def test_new_bindings(spec: Tree, expected: list[tuple[str, str]]) -> None:
    bindings = Asking(ADMISSION, "ValidatingAdmissionPolicyBinding")
    assert faults(bindings.create({"spec": {**BINDING, **spec}})) == expected
