"""The store of servers that tests run in their own process: memory, or with `--store etcd` a real etcd.

Each test has a prefix of its own in the etcd. Left out: tests that name their store, as those of processes do.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.apiserver import assembly
from dray.store import EtcdLog, Log, MemoryLog, open_log
from tests.store.etcd_process import Etcd

_ETCD: list[Etcd] = []  # the one that runs, with `--store etcd`


async def empty_log() -> Log:
    """A store without objects."""
    if not _ETCD:
        return MemoryLog()
    return await EtcdLog.open([_ETCD[0].endpoint], prefix=f"/{uuid.uuid4()}/")


@contextmanager
def etcd_instead_of_memory(place: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give servers that would have a store in memory one in etcd."""
    etcd = Etcd(place)
    etcd.start()
    _ETCD.append(etcd)

    async def open_(url: str) -> Log:
        return await (empty_log() if url == "memory" else open_log(url))

    patch.setattr(assembly, "open_log", open_)
    yield
    _ETCD.clear()
    etcd.kill()
