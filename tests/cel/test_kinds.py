"""Expressions against kinds: what the schema says about fields, as evaluation finds them."""

from __future__ import annotations

import pytest

from dray.api.resources import BY_KIND, RESOURCES, Resource
from dray.cel.kinds import KindCheck, type_of_kind
from dray.cel.types import DYN

CLAIMS = BY_KIND["resource.k8s.io", "ResourceClaim"]


def test_a_version_has_fields_of_its_own() -> None:
    flat = "object.spec.devices.requests[0].deviceClassName == 'gpu'"
    assert KindCheck(CLAIMS, "v1beta1", None, ()).complaint(flat) == ""
    assert "undefined field 'deviceClassName'" in KindCheck(CLAIMS, "v1", None, ()).complaint(flat)


def test_a_complaint_points_at_its_place() -> None:
    assert KindCheck(CLAIMS, "v1", None, ()).complaint("object.spec.nope == 1") == (
        "ERROR: <input>:1:12: undefined field 'nope'\n | object.spec.nope == 1\n | ...........^"
    )


def test_parameters_exist_where_they_have_a_type() -> None:
    config = type_of_kind("v1", "ConfigMap")
    text = "params.data['a'] == object.metadata.name"
    assert KindCheck(CLAIMS, "v1", config, ()).complaint(text) == ""
    assert "undefined field 'spec'" in KindCheck(CLAIMS, "v1", config, ()).complaint("params.spec == 1")
    assert "undeclared reference to 'params'" in KindCheck(CLAIMS, "v1", None, ()).complaint(text)


@pytest.mark.parametrize("kind", [("example.com/v1", "Limits"), ("v2", "ConfigMap"), ("v1", "Limits")])
def test_an_unknown_kind_can_be_anything(kind: tuple[str, str]) -> None:
    assert type_of_kind(*kind) == DYN
    assert KindCheck(CLAIMS, "v1", DYN, ()).complaint("params.whatever.it.is == 1") == ""


def test_a_variable_that_does_not_fit_can_be_anything() -> None:
    variables = [("odd", "object.nope"), ("name", "object.metadata.name")]
    check = KindCheck(CLAIMS, "v1", None, variables)
    assert check.complaint("variables.odd == 1 && variables.odd == 'a'") == ""
    assert "'(string, int)'" in check.complaint("variables.name == 1")


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified)
def test_every_kind_has_metadata(resource: Resource) -> None:
    for version in resource.versions:
        assert KindCheck(resource, version, None, ()).complaint("object.metadata.labels['a'] == 'b'") == ""
