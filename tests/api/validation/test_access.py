"""Roles, bindings, webhooks and reviews."""

from __future__ import annotations

import pytest

from dray.api import validation
from dray.api.resources import ADMISSION, AUTHENTICATION, AUTHORIZATION, RBAC
from dray.api.validation import Complaint, ExpressionUse, PolicyCheck
from dray.api.wire import Tree
from tests.api.asking import ALL, Asking, faults

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ROLE = {"kind": "Role", "name": "r"}
WEBHOOK = {
    "name": "a.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://example.com/check"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
}


def _rule(*resources: str) -> Tree:
    return {"operations": ["*"], "apiGroups": [""], "apiVersions": [""], "resources": list(resources)}


@pytest.mark.parametrize(
    ("group", "kind", "tree", "expected"),
    [
        (RBAC, "Role", {"rules": [RULE]}, []),
        (RBAC, "Role", {"metadata": {"name": "system:node"}}, []),
        (RBAC, "Role", {"metadata": {"name": "a/b"}}, [("metadata.name", "Invalid")]),
        (
            RBAC,
            "Role",
            {"rules": [{}]},
            [
                ("rules[0].apiGroups", "Required"),
                ("rules[0].resources", "Required"),
                ("rules[0].verbs", "Required"),
            ],
        ),
        (
            RBAC,
            "Role",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            [("rules[0].nonResourceURLs", "Invalid")],
        ),
        (RBAC, "ClusterRole", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, []),
        (
            RBAC,
            "ClusterRole",
            {"rules": [{**RULE, "nonResourceURLs": ["/x"]}]},
            [("rules[0].nonResourceURLs", "Invalid")],
        ),
        (RBAC, "ClusterRole", {"aggregationRule": {}}, [("aggregationRule.clusterRoleSelectors", "Required")]),
        (RBAC, "RoleBinding", {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "u"}]}, []),
        (
            RBAC,
            "RoleBinding",
            {"roleRef": {"kind": "X", "apiGroup": "y"}},
            [
                ("roleRef.apiGroup", "NotSupported"),
                ("roleRef.kind", "NotSupported"),
                ("roleRef.name", "Required"),
            ],
        ),
        (RBAC, "ClusterRoleBinding", {"roleRef": ROLE}, [("roleRef.kind", "NotSupported")]),
        (
            RBAC,
            "ClusterRoleBinding",
            {
                "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": "s"},
                    {"kind": "X", "name": ""},
                    {"kind": "Group", "name": "g", "apiGroup": "z"},
                ],
            },
            [
                ("subjects[0].namespace", "Required"),
                ("subjects[1].kind", "NotSupported"),
                ("subjects[2].apiGroup", "NotSupported"),
                ("subjects[1].name", "Required"),
            ],
        ),
        (ADMISSION, "ValidatingWebhookConfiguration", {"webhooks": [WEBHOOK]}, []),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [WEBHOOK, WEBHOOK]},
            [("webhooks[1].name", "Duplicate")],
        ),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [{**WEBHOOK, "name": ""}] * 2},
            [("webhooks[0].name", "Required"), ("webhooks[1].name", "Required")],
        ),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [{"name": "short"}]},
            [
                ("webhooks[0].name", "Invalid"),
                ("webhooks[0].sideEffects", "Required"),
                ("webhooks[0].clientConfig", "Required"),
                ("webhooks[0].admissionReviewVersions", "Required"),
            ],
        ),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {
                "webhooks": [
                    {
                        **WEBHOOK,
                        "clientConfig": {"url": "http://x"},
                        "timeoutSeconds": 31,
                        "failurePolicy": "X",
                        "rules": [{"operations": ["X"], "scope": "Y"}],
                    }
                ]
            },
            [
                ("webhooks[0].rules[0].operations[0]", "NotSupported"),
                ("webhooks[0].rules[0].apiGroups", "Required"),
                ("webhooks[0].rules[0].apiVersions", "Required"),
                ("webhooks[0].rules[0].resources", "Required"),
                ("webhooks[0].rules[0].scope", "NotSupported"),
                ("webhooks[0].failurePolicy", "NotSupported"),
                ("webhooks[0].timeoutSeconds", "Invalid"),
                ("webhooks[0].clientConfig.url", "Invalid"),
            ],
        ),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [{**WEBHOOK, "admissionReviewVersions": ["v1", "v1", "V2"]}]},
            [
                ("webhooks[0].admissionReviewVersions[1]", "Invalid"),
                ("webhooks[0].admissionReviewVersions[2]", "Invalid"),
            ],
        ),
        (
            ADMISSION,
            "MutatingWebhookConfiguration",
            {"webhooks": [{**WEBHOOK, "rules": [_rule("", "pods/*", "pods/log"), _rule("*/*", "*", "a")]}]},
            [
                ("webhooks[0].rules[0].apiVersions[0]", "Required"),
                ("webhooks[0].rules[0].resources[0]", "Required"),
                ("webhooks[0].rules[0].resources[2]", "Invalid"),
                ("webhooks[0].rules[1].apiVersions[0]", "Required"),
                ("webhooks[0].rules[1].resources", "Invalid"),
                ("webhooks[0].rules[1].resources", "Invalid"),
            ],
        ),
        (AUTHORIZATION, "SelfSubjectAccessReview", {"spec": {"resourceAttributes": {"verb": "get"}}}, []),
        (AUTHORIZATION, "SelfSubjectAccessReview", {}, [("spec.resourceAttributes", "Invalid")]),
        (
            AUTHORIZATION,
            "SubjectAccessReview",
            {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}},
            [
                ("spec.nonResourceAttributes", "Invalid"),
                ("spec.user", "Invalid"),
            ],
        ),
        (
            AUTHORIZATION,
            "LocalSubjectAccessReview",
            {"spec": {"user": "u", "resourceAttributes": {"namespace": "other"}}},
            [("spec.resourceAttributes.namespace", "Invalid")],
        ),
        (AUTHORIZATION, "SelfSubjectRulesReview", {}, [("spec.namespace", "Required")]),
        (AUTHENTICATION, "TokenReview", {}, [("spec.token", "Required")]),
        (AUTHENTICATION, "SelfSubjectReview", {}, []),
    ],
)
def test_new_objects(group: str, kind: str, tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking(group, kind).create(tree)) == expected


def test_a_binding_keeps_its_role() -> None:
    bindings = Asking(RBAC, "RoleBinding")
    assert faults(bindings.update({"roleRef": ROLE}, {"roleRef": {**ROLE, "name": "s"}})) == [("roleRef", "Invalid")]
    assert bindings.update({"roleRef": ROLE}, {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "u"}]}) == []


class Webhooks(Asking):
    """Asks about the conditions of webhooks, with a checker that refuses the word "bad"."""

    def __init__(self) -> None:
        super().__init__(ADMISSION, "ValidatingWebhookConfiguration")
        self.told: list[tuple[bool, bool]] = []
        self._context = validation.Context(ALL, version="v1", policy_expressions=self._expressions)

    def _expressions(self, params: bool, composed: bool) -> PolicyCheck:
        self.told.append((params, composed))
        return self._check

    def _check(self, use: ExpressionUse, expression: str, name: str) -> Complaint | None:
        assert use == "condition"
        return Complaint("Invalid", "is bad") if expression == "bad" else None


def conditioned(*conditions: Tree) -> Tree:
    return {"webhooks": [{**WEBHOOK, "name": "first.example.com"}, {**WEBHOOK, "matchConditions": list(conditions)}]}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], []),
        ([{"name": "a", "expression": "true"}, {"name": "example.com/a", "expression": "true"}], []),
        ([{"name": f"n{number}", "expression": "true"} for number in range(64)], []),
        (
            [{"name": f"n{number}", "expression": "true"} for number in range(65)],
            [("webhooks[1].matchConditions", "TooMany")],
        ),
        (
            [
                {"name": "a", "expression": " bad "},
                {"name": "a", "expression": " "},
                {"name": "?", "expression": "true"},
            ],
            [
                ("webhooks[1].matchConditions[0].expression", "Invalid"),
                ("webhooks[1].matchConditions[1].expression", "Required"),
                ("webhooks[1].matchConditions[1].name", "Duplicate"),
                ("webhooks[1].matchConditions[2].name", "Invalid"),
            ],
        ),
        ([{"expression": "true"}], [("webhooks[1].matchConditions[0].name", "Required")]),
    ],
)
def test_conditions_of_webhooks(conditions: list[Tree], expected: list[tuple[str, str]]) -> None:
    webhooks = Webhooks()
    assert faults(webhooks.create(conditioned(*conditions))) == expected
    assert webhooks.told == ([(False, False)] if conditions else [])


def test_conditions_that_were_there_are_not_complained_about_again() -> None:
    webhooks, bad = Webhooks(), {"name": "?", "expression": "bad"}
    name = ("webhooks[1].matchConditions[0].name", "Invalid")
    assert webhooks.update(conditioned(bad), conditioned(bad)) == []
    assert faults(webhooks.update(conditioned(bad), conditioned(bad, {"name": "b", "expression": "true"}))) == [name]
    assert faults(webhooks.update(conditioned(), conditioned(bad))) == [
        ("webhooks[1].matchConditions[0].expression", "Invalid"),
        name,
    ]
