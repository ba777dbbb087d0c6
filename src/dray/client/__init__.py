"""Clients of an API server: one interface for in-process and HTTP access, and tools built on it.

Informers, work queue, controller loop, events and leader election use only the interface. The HTTP client
(`dray.client.http`) and its configuration (`dray.client.config`) are separate modules, because importing them
takes a tenth of a second.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.api.calls import PatchBody, PatchKind
    from dray.api.wire import Tree
    from dray.client.clock import Clock, ManualClock, SystemClock
    from dray.client.controller import Controller
    from dray.client.events import EventRecorder
    from dray.client.informer import Delta, Deltas, Informer, Key, key_of
    from dray.client.inprocess import InProcess
    from dray.client.interface import Client, EventBatch, Object, Page, WatchEvent, resource_of, type_of
    from dray.client.leader import LeaderElection, LeaseExpired, LeaseSettings, LostLeadership
    from dray.client.shared import InformerSelection, SharedInformers
    from dray.client.status import change_status, with_conditions, with_fields
    from dray.client.workqueue import QueueClosed, WorkQueue

__all__ = [
    "Client",
    "Clock",
    "Controller",
    "Delta",
    "Deltas",
    "EventBatch",
    "EventRecorder",
    "InProcess",
    "Informer",
    "InformerSelection",
    "Key",
    "LeaderElection",
    "LeaseExpired",
    "LeaseSettings",
    "LostLeadership",
    "ManualClock",
    "Object",
    "Page",
    "PatchBody",
    "PatchKind",
    "QueueClosed",
    "SharedInformers",
    "SystemClock",
    "Tree",
    "WatchEvent",
    "WorkQueue",
    "change_status",
    "key_of",
    "resource_of",
    "type_of",
    "with_conditions",
    "with_fields",
]

__getattr__ = lazily(
    __name__,
    {
        "dray.api.calls": ("PatchBody", "PatchKind"),
        "dray.api.wire": ("Tree",),
        "clock": ("Clock", "ManualClock", "SystemClock"),
        "controller": ("Controller",),
        "events": ("EventRecorder",),
        "informer": ("Delta", "Deltas", "Informer", "Key", "key_of"),
        "inprocess": ("InProcess",),
        "interface": ("EventBatch", "Client", "Object", "Page", "WatchEvent", "resource_of", "type_of"),
        "leader": ("LeaderElection", "LeaseExpired", "LeaseSettings", "LostLeadership"),
        "shared": ("InformerSelection", "SharedInformers"),
        "status": ("change_status", "with_conditions", "with_fields"),
        "workqueue": ("QueueClosed", "WorkQueue"),
    },
)
