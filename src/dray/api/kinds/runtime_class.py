"""RuntimeClass: the container runtime for pods, and its overhead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.api.columns import AGE, NAME, text
from dray.api.errors import duplicate
from dray.api.kind import UNUSED, KindRules, Resource
from dray.api.paths import Path
from dray.api.quoting import quote
from dray.api.resource_names import resource
from dray.api.rules import Errors
from dray.api.types import core, node
from dray.api.written import as_go


def _warnings(class_: node.RuntimeClass, old: node.RuntimeClass | None) -> Iterator[str]:
    """Yield the warning that the handler has no effect, because users may rely on its isolation."""
    yield f"handler: {quote(class_.handler)} {UNUSED}"


KIND = Resource(
    node.RuntimeClass,
    namespaced=False,
    columns=(NAME, text("Handler", "handler"), AGE),
    conditional=("v1",),
    rules=KindRules(update=""),
    warnings=_warnings,
    is_created_by_update=True,
)


def overhead(amounts: Mapping[str, str], path: Path) -> Errors:
    """Yield errors in the resources of a RuntimeClass's overhead."""
    for name, amount in amounts.items():
        yield from resource(name, amount, path % name)


def same_tolerations(tolerations: Sequence[core.Toleration], path: Path) -> Errors:
    """Yield an error for each duplicate toleration."""
    seen: set[tuple[str, ...]] = set()
    for index, one in enumerate(tolerations):
        if (key := (one.key, one.operator, one.value, one.effect)) in seen:
            yield duplicate(path / index, as_go(one))
        seen.add(key)
