"""The custom resources of a cluster, for controllers that handle objects of all kinds.

Follows CustomResourceDefinitions and reports the resource of each that is established: garbage collection follows
their objects, namespaces delete them, quotas count them. Left out: what the objects mean.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.custom import custom_resource
from dray.api.resources import Resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.client import Deltas
from dray.controllers.context import ControllerContext

# called with a resource before and after a change; None if it does not exist
Listener = Callable[[Resource | None, Resource | None], None]


class CustomResources:
    """The established CustomResourceDefinitions, as resources."""

    def __init__(self, context: ControllerContext, listener: Listener | None = None) -> None:
        self._known: dict[str, Resource] = {}
        self._listener = listener
        context.informers.informer(CustomResourceDefinition).add_handler(self._changed)

    def all(self) -> tuple[Resource, ...]:
        return tuple(self._known.values())

    def by_kind(self, group: str, kind: str) -> Resource | None:
        return next((r for r in self._known.values() if (r.group, r.kind) == (group, kind)), None)

    def _changed(self, deltas: Deltas[CustomResourceDefinition]) -> None:
        for old, new in deltas:
            if old is not None and new is not None and (old.spec, old.status) == (new.spec, new.status):
                continue
            name = (new or old).metadata.name  # type: ignore[union-attr]  # one of the two always exists
            before = self._known.pop(name, None)
            if new is not None and _is_served(new):
                same = before is not None and before.custom is not None and before.custom.describes(new)
                self._known[name] = before if same and before is not None else custom_resource(new)
            if before is not None and before.custom is not None and self._known.get(name) is not before:
                before.custom.forget(None)
            if self._listener is not None and self._known.get(name) is not before:
                self._listener(before, self._known.get(name))


def _is_served(definition: CustomResourceDefinition) -> bool:
    established = any(c.type == "Established" and c.status == "True" for c in definition.status.conditions or ())
    return established and any(version.served for version in definition.spec.versions)
