"""Event: what happened to an object. Core events and those of events.k8s.io are the same stored objects."""

from __future__ import annotations

from dray.api.cells import age
from dray.api.columns import TableColumn, since, text, wide
from dray.api.kind import Resource
from dray.api.types import core, events


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


KIND = Resource(
    "",
    "events",
    "Event",
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
)
ALIAS = Resource("events.k8s.io", "events", "Event", events.Event, short_names=("ev",), alias_of=KIND)
