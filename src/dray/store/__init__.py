"""Where the cluster's state lives: a revisioned log of key → bytes, and one cache above it.

`open_log` opens a backend (memory, SQLite, etcd), `Cache.open` serves GET, LIST and WATCH from it. See docs/store.md.
"""

from typing import TYPE_CHECKING, Any

from dray.store.cache import Cache
from dray.store.errors import (
    Closed,
    Compacted,
    Conflict,
    Expired,
    Lagged,
    StoreError,
    TooLarge,
    Unavailable,
    Unreadable,
)
from dray.store.history import Retention
from dray.store.log import AWAITED, Batch, Log, Op, Page, Version
from dray.store.memory import MemoryLog
from dray.store.opening import open_log
from dray.store.sqlite import SqliteLog
from dray.store.watch import Event, Subscription, Watch

if TYPE_CHECKING:
    from dray.store.etcd import EtcdLog
    from dray.store.etcd_client import Tls

__all__ = [
    "AWAITED",
    "Batch",
    "Cache",
    "Closed",
    "Compacted",
    "Conflict",
    "EtcdLog",
    "Event",
    "Expired",
    "Lagged",
    "Log",
    "MemoryLog",
    "Op",
    "Page",
    "Retention",
    "SqliteLog",
    "StoreError",
    "Subscription",
    "Tls",
    "TooLarge",
    "Unavailable",
    "Unreadable",
    "Version",
    "Watch",
    "open_log",
]


def __getattr__(name: str) -> Any:
    """EtcdLog and Tls on demand: importing gRPC takes longer than everything else here, and most clusters need none."""
    if name in {"EtcdLog", "Tls"}:
        from dray.store import etcd

        return getattr(etcd, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
