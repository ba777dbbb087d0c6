"""Event: what happened to an object. Core events and those of events.k8s.io are the same stored objects."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import core, events

KIND = Resource("", "events", "Event", core.Event, short_names=("ev",))
ALIAS = Resource("events.k8s.io", "events", "Event", events.Event, short_names=("ev",), alias_of=KIND)
