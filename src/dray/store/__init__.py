"""Where the cluster's state lives: a revisioned log of key → bytes, and one cache above it.

`open_log` opens a backend (memory, SQLite, etcd), `Cache.open` serves GET, LIST and WATCH from it. See docs/store.md.
"""

from dray.store.cache import Cache
from dray.store.errors import Closed, Compacted, Conflict, Expired, Lagged, StoreError, Unavailable, Unreadable
from dray.store.history import Retention
from dray.store.log import Batch, Log, Op, Page, Version
from dray.store.memory import MemoryLog
from dray.store.watch import Event, Subscription, Watch

__all__ = [
    "Batch",
    "Cache",
    "Closed",
    "Compacted",
    "Conflict",
    "Event",
    "Expired",
    "Lagged",
    "Log",
    "MemoryLog",
    "Op",
    "Page",
    "Retention",
    "StoreError",
    "Subscription",
    "Unavailable",
    "Unreadable",
    "Version",
    "Watch",
]
