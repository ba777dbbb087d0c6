"""Definitions as resources, on their own."""

from __future__ import annotations

import msgspec

from dray.api import schema
from dray.api.custom.kinds import CustomKind
from dray.api.types.apiextensions import CustomResourceDefinition

VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
NAMES = {"plural": "widgets", "kind": "Widget"}
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
    "status": {"acceptedNames": NAMES},
}


def test_a_schema_that_is_asked_for_once_more_after_its_definition_went_goes_with_who_asked() -> None:
    kind = CustomKind(msgspec.convert(DEFINITION, CustomResourceDefinition))
    message = kind.message("v1")
    assert schema.is_known(message)
    kind.forget(None)
    assert not schema.is_known(message)
    assert kind.message("v1") == message
    assert schema.is_known(message)
    del kind
    assert not schema.is_known(message)
