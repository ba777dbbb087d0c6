"""What the tests of defaults, strategies and validation ask: one object through the steps of a write."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from dray.api import conversion, decode, defaults, strategy, validation
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND, Resource
from dray.api.validation.context import SelectorCheck, accept_any
from dray.api.wire import Tree, Wire

NOW = "2026-01-01T00:00:00Z"
ALL = FeatureGates.parse("AllAlpha=true")


class Asking:
    """One kind in one version, with gates and a checker of selectors."""

    def __init__(
        self,
        group: str,
        kind: str,
        version: str = "",
        gates: FeatureGates = ALL,
        check_selector: SelectorCheck = accept_any,
    ) -> None:
        self.resource: Resource = BY_KIND[group, kind]
        self.version = version or self.resource.stored
        self.gates = gates
        self._context = validation.Context(gates, check_selector, self.version)

    def defaulted(self, tree: Tree, **metadata: Any) -> Tree:
        """The stored tree of a request, named and defaulted."""
        tree = copy.deepcopy(tree)
        own = {"name": "x", "uid": "u", **({"namespace": "ns"} if self.resource.namespaced else {}), **metadata}
        tree["metadata"] = {**own, **tree.get("metadata", {})}
        assert decode.check(self.resource, self.version, tree) == []
        tree = conversion.to_stored(self.resource, self.version, tree)
        defaults.apply_defaults(self.resource, tree, self.gates, NOW)
        return tree

    def made(self, tree: Tree) -> Wire:
        """The new object, valid or not."""
        tree = self.defaulted(tree)
        strategy.prepare_create(self.resource, tree, self.gates)
        return decode.to_object(self.resource.home, tree)

    def shown(self, object_: Wire) -> Tree:
        tree: Tree = msgspec.json.decode(msgspec.json.encode(object_))
        return tree

    def create(self, tree: Tree) -> list[FieldError]:
        return validation.validate_create(self.resource, self.made(tree), self._context)

    def changed(self, old: Wire, tree: Tree, subresource: str = "") -> Wire:
        """The object that an update makes of an old one."""
        tree = self.defaulted(tree)
        strategy.prepare_update(self.resource, tree, old, subresource, self.gates)
        return decode.to_object(self.resource.home, tree)

    def update(self, old: Tree | Wire, tree: Tree, subresource: str = "") -> list[FieldError]:
        before = self.made(old) if isinstance(old, dict) else old
        after = self.changed(before, tree, subresource)
        return validation.validate_update(self.resource, after, before, subresource, self._context)


def faults(errors: list[FieldError]) -> list[tuple[str, str]]:
    """Path and short reason of each error."""
    return [(error.field, error.reason.removeprefix("FieldValue")) for error in errors]
