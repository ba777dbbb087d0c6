"""Devices as selectors see them."""

from __future__ import annotations

import pytest

from dray.cel import CelFeatures
from tests.cel.asking import DOMAIN, ask, device

GPU = device(
    {
        "model": {"string": "a100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "ext.org/version": {"version": "1.2.3"},
    },
    {"memory": {"value": "40Gi"}, "ext.org/slices": {"value": "7"}},
)


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{DOMAIN}"',
        f'device.attributes["{DOMAIN}"].model == "a100"',
        f'device.attributes["{DOMAIN}"].index == 3',
        f'device.attributes["{DOMAIN}"].healthy',
        'device.attributes["ext.org"].version == semver("1.2.3")',
        f'device.capacity["{DOMAIN}"].memory == quantity("40960Mi")',
        'device.capacity["ext.org"].slices.isInteger()',
        "device.allowMultipleAllocations == false",
    ],
)
def test_each_kind_of_value_can_be_read(expression: str) -> None:
    assert ask(expression, GPU) is True


def test_names_without_a_domain_belong_to_the_driver() -> None:
    plain, qualified = device({"model": {"string": "x"}}), device({f"{DOMAIN}/model": {"string": "x"}})
    assert plain.attributes == qualified.attributes == {DOMAIN: {"model": "x"}}


def test_a_domain_that_the_device_does_not_have_is_empty() -> None:
    assert ask('device.attributes["nobody.org"] == {} && device.capacity["nobody.org"] == {}', GPU) is True
    assert ask('"nobody.org" in device.attributes', GPU) is False


def test_a_missing_attribute_is_an_error_that_has_avoids() -> None:
    assert ask(f'device.attributes["{DOMAIN}"].nope == 1', GPU) == "no such key: nope"
    assert ask(f'has(device.attributes["{DOMAIN}"].nope)', GPU) is False


def test_domains_come_in_a_fixed_order_with_the_driver_first() -> None:
    view = device({"z": {"int": 1}, "b": {"int": 1}, "a.org/x": {"int": 2}, "z.org/y": {"int": 3}})
    assert [(domain, list(names)) for domain, names in view.attributes.items()] == [
        (DOMAIN, ["b", "z"]),
        ("a.org", ["x"]),
        ("z.org", ["y"]),
    ]


def test_a_shared_device_says_so() -> None:
    assert ask("device.allowMultipleAllocations", device(shared=True)) is True


@pytest.mark.parametrize(
    ("view", "error"),
    [
        (
            device({"v": {"version": "1.2"}}),
            "attribute v: parse semantic version: No Major.Minor.Patch elements found",
        ),
        (device({"v": {}}), "attribute v: unsupported attribute value"),
        (
            device(capacity={"c": {"value": "many"}}),
            "capacity c: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_value_that_cannot_be_used_fails_every_selector(view: object, error: str) -> None:
    assert ask("true", view) == error  # type: ignore[arg-type]  # parametrised


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ({"strings": ["a", "b"]}, '"b"'),
        ({"ints": [1, 2]}, "2"),
        ({"bools": [True]}, "true"),
        ({"versions": ["1.0.0", "2.0.0"]}, 'semver("2.0.0")'),
    ],
)
def test_list_attributes_are_asked_with_includes(value: dict[str, object], inside: str) -> None:
    view = device({"v": value})
    features = CelFeatures(list_attributes=True)
    assert ask(f'device.attributes["{DOMAIN}"].v.includes({inside})', view, features) is True
