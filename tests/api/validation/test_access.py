"""Roles, bindings, webhooks and reviews."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.resources import ADMISSION, AUTHENTICATION, AUTHORIZATION, RBAC
from tests.api.asking import Asking, faults

Tree = dict[str, Any]
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ROLE = {"kind": "Role", "name": "r"}
WEBHOOK = {
    "name": "a.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://example.com/check"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
}


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
                ("rules[0].verbs", "Required"),
                ("rules[0].apiGroups", "Required"),
                ("rules[0].resources", "Required"),
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
                ("subjects[1].name", "Required"),
                ("subjects[1].kind", "NotSupported"),
                ("subjects[2].apiGroup", "NotSupported"),
            ],
        ),
        (ADMISSION, "ValidatingWebhookConfiguration", {"webhooks": [WEBHOOK]}, []),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [WEBHOOK, WEBHOOK]},
            [("webhooks[1].name", "Invalid")],
        ),
        (
            ADMISSION,
            "ValidatingWebhookConfiguration",
            {"webhooks": [{"name": "short"}]},
            [
                ("webhooks[0].name", "Invalid"),
                ("webhooks[0].admissionReviewVersions", "Required"),
                ("webhooks[0].sideEffects", "Required"),
                ("webhooks[0].clientConfig", "Required"),
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
