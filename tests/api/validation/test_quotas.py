"""Scopes of quotas: which there are, and what they can be said of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.asking import Asking, faults


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hard": {"pods": "1", "cpu": "2"}, "scopes": ["NotTerminating"]}, []),
        ({"hard": {"pods": "1"}, "scopes": ["X"]}, [("spec.scopes", "Invalid")]),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, [("spec.scopes", "Invalid")]),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, [("spec.scopes", "Invalid")]),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            [],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            [("spec.scopeSelector.matchExpressions.values", "Required")],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "DoesNotExist"}]}},
            [("spec.scopeSelector.matchExpressions.operator", "Invalid")],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Y", "operator": "Z"}]}},
            [
                ("spec.scopeSelector.matchExpressions.scopeName", "Invalid"),
                ("spec.scopeSelector.matchExpressions.operator", "Invalid"),
            ],
        ),
    ],
)
def test_scopes_are_known_and_fit(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert faults(Asking("", "ResourceQuota").create({"spec": spec})) == expected
