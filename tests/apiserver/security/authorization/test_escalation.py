"""What covers what."""

import pytest

from dray.api.types.rbac import PolicyRule
from dray.apiserver.admission.roles import compact
from tests.apiserver.reading import not_held


def rule(verbs: str, groups: str = "", resources: str = "", names: str = "", urls: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=tuple(verbs.split()),
        apiGroups=tuple(groups.split()),
        resources=tuple(resources.split()),
        resourceNames=tuple(names.split()),
        nonResourceURLs=tuple(urls.split()),
    )


@pytest.mark.parametrize(
    ("owned", "wanted"),
    [
        ([rule("get list", "apps", "deployments")], rule("get", "apps", "deployments")),
        ([rule("*", "*", "*")], rule("delete", "apps", "deployments/status", "x")),
        ([rule("get", "apps", "a"), rule("get", "apps", "b")], rule("get", "apps", "a b")),
        ([rule("get", "apps", "a", "x y")], rule("get", "apps", "a", "x")),
        ([rule("get", "apps", "a")], rule("get", "apps", "a", "x")),
        ([rule("get", "apps", "*/status")], rule("get", "apps", "a/status")),
        ([rule("get", urls="/healthz/*")], rule("get", urls="/healthz/etcd")),
        ([rule("*", urls="*")], rule("get", urls="/metrics")),
        ([], rule("get")),
    ],
)
def test_covered(owned: list[PolicyRule], wanted: PolicyRule) -> None:
    assert not_held(owned, wanted) == []


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([], rule("get", "apps", "a"), [rule("get", "apps", "a")]),
        ([rule("get", "apps", "a")], rule("get list", "apps", "a"), [rule("list", "apps", "a")]),
        ([rule("get", "apps", "a")], rule("*", "apps", "a"), [rule("*", "apps", "a")]),
        ([rule("get", "apps", "a", "x")], rule("get", "apps", "a"), [rule("get", "apps", "a")]),
        ([rule("get", "apps", "a", "x")], rule("get", "apps", "a", "x y"), [rule("get", "apps", "a", "y")]),
        ([rule("get", "apps", "a")], rule("get", "apps", "a/status"), [rule("get", "apps", "a/status")]),
        ([rule("get", urls="/healthz")], rule("get", urls="/healthz/*"), [rule("get", urls="/healthz/*")]),
        ([rule("*", "*", "*")], rule("get", urls="/metrics"), [rule("get", urls="/metrics")]),
    ],
)
def test_uncovered(owned: list[PolicyRule], wanted: PolicyRule, missing: list[PolicyRule]) -> None:
    assert not_held(owned, wanted) == missing
    assert not_held([], wanted, beside=owned) == missing


def test_a_rule_for_the_empty_name_does_not_cover_every_name() -> None:
    unnamed = PolicyRule(verbs=("get",), apiGroups=("apps",), resources=("a",), resourceNames=("",))
    every = rule("get", "apps", "a")
    assert not_held([unnamed], every) == [every]
    assert not_held([unnamed], unnamed) == []
    assert not_held([every], unnamed) == []
    assert not_held([], unnamed) == [unnamed]


def test_rules_are_printed_compactly() -> None:
    text = compact(rule("get list", "apps", "a", "x"))
    assert text == '{APIGroups:["apps"], Resources:["a"], ResourceNames:["x"], Verbs:["get" "list"]}'
