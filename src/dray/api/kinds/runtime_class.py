"""RuntimeClass: the container runtime for pods, and its overhead."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.columns import AGE, NAME, text
from dray.api.kind import UNUSED, KindRules, Resource
from dray.api.quoting import quote
from dray.api.types import node


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
