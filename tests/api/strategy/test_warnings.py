"""Warnings about objects that are accepted."""

from __future__ import annotations

import pytest

from dray.api import strategy
from dray.api.resources import DRA
from tests.api.asking import Asking


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("d.example.com", []),
        (
            "D.example.com",
            ['spec.driver: driver names should be lowercase; "D.example.com" contains uppercase characters'],
        ),
    ],
)
def test_drivers_should_be_lowercase(driver: str, expected: list[str]) -> None:
    slices = Asking(DRA, "ResourceSlice")
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    tree = {"spec": {"driver": driver, "nodeName": "n", "pool": pool}}
    assert slices.create(tree) == []
    assert strategy.warnings(slices.resource, slices.made(tree)) == expected


def test_handlers_of_runtime_classes_have_no_effect() -> None:
    classes = Asking("node.k8s.io", "RuntimeClass")
    found = strategy.warnings(classes.resource, classes.made({"handler": "runsc"}))
    assert found == ['handler: "runsc" is stored, but no part of dray acts on it']
