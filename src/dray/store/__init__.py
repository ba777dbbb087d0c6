"""Storage of the cluster's state: a revisioned log of key → bytes, and a cache above it.

`open_log` opens a backend (memory, SQLite or etcd); `Cache.open` serves GET, LIST and WATCH from it. See
docs/store.md.
"""

from typing import TYPE_CHECKING, Any

from dray.store.cache import Cache
from dray.store.errors import (
    Closed,
    CommitTooLarge,
    Compacted,
    Lagged,
    RevisionConflict,
    RevisionExpired,
    StoreError,
    Unavailable,
    Unreadable,
)
from dray.store.history import Retention
from dray.store.log import Batch, KeyVersion, Log, Op, RangePage
from dray.store.memory import MemoryLog
from dray.store.opening import open_log
from dray.store.sqlite import SqliteLog
from dray.store.watch import StoreEvent, Subscription, Watch

if TYPE_CHECKING:
    from dray.store.etcd import EtcdLog
    from dray.store.etcd_client import EtcdTls

__all__ = [
    "Batch",
    "Cache",
    "Closed",
    "CommitTooLarge",
    "Compacted",
    "EtcdLog",
    "EtcdTls",
    "KeyVersion",
    "Lagged",
    "Log",
    "MemoryLog",
    "Op",
    "RangePage",
    "Retention",
    "RevisionConflict",
    "RevisionExpired",
    "SqliteLog",
    "StoreError",
    "StoreEvent",
    "Subscription",
    "Unavailable",
    "Unreadable",
    "Watch",
    "open_log",
]


def __getattr__(name: str) -> Any:
    """Import EtcdLog and EtcdTls on first use, because importing gRPC takes long and is seldom needed."""
    if name in {"EtcdLog", "EtcdTls"}:
        from dray.store import etcd

        return getattr(etcd, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
