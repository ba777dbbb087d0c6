"""Event: reports what happened to an object. Core events and events.k8s.io events are the same stored objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dray.api import names
from dray.api.cells import age
from dray.api.columns import TableColumn, since, text, wide
from dray.api.conversion import WorkloadLookup
from dray.api.errors import invalid, required
from dray.api.kind import KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.trees import rename
from dray.api.types import core, events
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


_EVENT_TYPES = ("Normal", "Warning")
_EVENT_TEXT_MAX = 1024


def _object(event: core.Event) -> str:
    kind, name = event.involvedObject.kind.lower(), event.involvedObject.name
    return f"{kind}/{name}" if name else kind


def _source(event: core.Event) -> str:
    component = event.source.component or event.reportingComponent
    host = event.source.host or event.reportingInstance
    return f"{component}, {host}" if host else component


def _first_seen(event: core.Event) -> str | None:
    return event.firstTimestamp or event.eventTime


def _last_seen(event: core.Event) -> str | None:
    return event.series.lastObservedTime if event.series else event.lastTimestamp or _first_seen(event)


def _count(event: core.Event, now: float) -> int:
    return event.series.count if event.series else event.count or 1


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_FIELDS: Mapping[str, Callable[[Any], str]] = {
    **{f"involvedObject.{field}": attrgetter(f"involvedObject.{field}") for field in _INVOLVED},
    "reason": attrgetter("reason"),
    "reportingComponent": lambda event: event.reportingComponent or event.source.component,
    "source": lambda event: event.source.component or event.reportingComponent,
    "type": attrgetter("type"),
}
# Events are stored as core events, whichever group they were written through.
_NEW_FIELDS: Mapping[str, Callable[[Any], str]] = {
    **{f"regarding.{field}": attrgetter(f"involvedObject.{field}") for field in _INVOLVED},
    "reason": _CORE_FIELDS["reason"],
    "reportingController": _CORE_FIELDS["reportingComponent"],
    "type": _CORE_FIELDS["type"],
}
_STORED_NAMES = {
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    rename(tree, _STORED_NAMES)


def _from_stored(tree: Tree) -> None:
    rename(tree, {stored: new for new, stored in _STORED_NAMES.items()})
    for name in ("note", "reason", "reportingController", "reportingInstance", "type", "action"):
        if tree.get(name) == "":
            del tree[name]
    if tree.get("series"):
        tree["series"].setdefault("count", 0)


KIND = Resource(
    core.Event,
    short_names=("ev",),
    columns=(
        since("Last Seen", _last_seen),
        text("Type", "type"),
        text("Reason", "reason"),
        text("Object", _object),
        wide("Subobject", "involvedObject.fieldPath"),
        wide("Source", _source),
        text("Message", lambda event: event.message.strip()),
        TableColumn("First Seen", lambda event, now: age(_first_seen(event), now), priority=1),
        TableColumn("Count", _count, type="integer", priority=1),
        wide("Name", "metadata.name", format="name"),
    ),
    rules=KindRules("event.create_event", "", name=names.path_segment),
    selectable=_CORE_FIELDS,
    is_created_by_update=True,
)
ALIAS = Resource(
    events.Event,
    short_names=("ev",),
    alias_of=KIND,
    rules=KindRules("event.create_new_event", "", name=names.path_segment),
    selectable=_NEW_FIELDS,
    to_stored={"v1": _to_stored},
    from_stored={"v1": _from_stored},
    is_created_by_update=True,
)


def create_event(event: core.Event, context: Context) -> Errors:
    """Yield an error if a new event is in another namespace than its object."""
    about, path = event.involvedObject.namespace, Path("involvedObject") / "namespace"
    if about != event.metadata.namespace and not (not about and event.metadata.namespace == "default"):
        yield invalid(path, about, "does not match event.namespace")


def create_new_event(event: core.Event, context: Context) -> Errors:
    """Yield errors in a new events.k8s.io event. It is stored as a core event, but errors have the new field names."""
    yield from create_event(event, context)
    if not event.eventTime:
        yield required("eventTime")
    needed = {
        "reportingController": event.reportingComponent,
        "reportingInstance": event.reportingInstance,
        "action": event.action,
        "reason": event.reason,
    }
    for field, value in needed.items():
        if not value:
            yield required(field)
    if event.type not in _EVENT_TYPES:
        yield invalid("type", event.type, 'has invalid value: must be "Normal" or "Warning"')
    if len(event.message.encode()) > _EVENT_TEXT_MAX:
        yield invalid("note", "", "can have at most 1024 characters")
