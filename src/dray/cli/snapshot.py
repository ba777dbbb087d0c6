"""`dray snapshot save|check|restore`: copy a cluster's state, and recover the intact part of a damaged database.

A copy is a SQLite file, whether made from SQLite or etcd, and can be restored to either.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail
from dray.files import read_regular

if TYPE_CHECKING:
    from dray.store import EtcdLog
    from dray.store.snapshot import Recovered


_DATABASE = "state.db"
_KEYS = (".crt", ".key", ".token")  # suffixes of a cluster's key files
_MOST_LINES = 20


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "snapshot",
        help="copy, check or restore the state of a cluster",
        description="Copies the state of a cluster from SQLite or etcd into a file, checks it, and restores it to SQLite or "
        "etcd. A copy has a checksum for each object.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    save = actions.add_parser("save", help="copy the state of a running or stopped cluster to a file")
    save.add_argument("file", type=Path, metavar="FILE", help="file to write; must not exist")
    save.add_argument(
        "--dir", default=Path(".dray"), type=Path, metavar="DIR", help="directory of the cluster (default: %(default)s)"
    )
    save.add_argument("--store", default="", metavar="URL", help="copy from etcd instead: etcd://HOST:PORT,…")
    save.set_defaults(run=run_save)
    check = actions.add_parser("check", help="check the checksums of a database; exit status 1 if it is damaged")
    restore = actions.add_parser(
        "restore",
        help="create a cluster directory from a copy, or from the intact part of a damaged database",
        description="Makes a new cluster directory of a copy or of a damaged database, tells what is lost, and leaves "
        "the source as it is. Keys and tokens that are beside the database come along. End the cluster first.",
    )
    for action, run in ((check, run_check), (restore, run_restore)):
        action.add_argument("source", type=Path, metavar="FILE|DIR", help="database, or directory of a cluster")
        action.set_defaults(run=run)
    restore.add_argument("--dir", required=True, type=Path, metavar="NEW", help="directory to create")
    restore.add_argument(
        "--store", default="", metavar="URL", help="restore to etcd instead of a database in NEW: etcd://HOST:PORT,…"
    )


def run_save(args: argparse.Namespace) -> int:
    """Copy the state of a cluster into a file. Returns the exit status.

    The status is 0, or 1 or 2 if the state cannot be read or written.
    """
    from dray.store import StoreError, snapshot

    try:
        found = asyncio.run(_read_etcd(args.store)) if args.store else snapshot.read(_database(args.dir))
        snapshot.write(args.file, found)
    except StoreError as error:
        return fail("snapshot save", error)
    print(f"{len(found.rows)} objects at revision {found.head} are in {args.file}")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Check the checksums of a database. Returns the exit status.

    The status is 1 if objects are lost, else 0; 1 or 2 if the database cannot be read.
    """
    from dray.store import StoreError, snapshot

    path = _database(args.source)
    try:
        found = snapshot.recover(path)
    except StoreError as error:
        return fail("snapshot check", error)
    print(f"{path}: {_summary(found)}")
    return 1 if found.lost else 0


def run_restore(args: argparse.Namespace) -> int:
    """Create a cluster directory or fill an etcd from a copy or damaged database. Returns the exit status.

    The status is 0, or 1 or 2 if the source cannot be read or the target cannot be written.
    """
    from dray.store import StoreError, snapshot

    source, target = _database(args.source), args.dir / _DATABASE
    try:
        found = snapshot.recover(source)
        args.dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restoring-", dir=args.dir) as place:
            database = Path(place) / _DATABASE if args.store else target
            snapshot.write(database, found)
            dropped = asyncio.run(_repair(database)) if found.lost or found.unverified else 0
            if args.store:
                asyncio.run(_write_etcd(args.store, database))
        _copy_keys(source.parent, args.dir)
    except (StoreError, OSError) as error:
        return fail("snapshot restore", error)
    print(f"{args.store or target}: {_summary(found)}")
    if dropped:
        print(f"{dropped} more could not be decoded and were left out")
    store = f" --store '{args.store}'" if args.store else ""
    print(f"`dray up --dir {args.dir}{store}` goes on with it")
    return 0


async def _read_etcd(url: str) -> Recovered:
    """Return the rows of a cluster's state in etcd."""
    from dray.store import etcd_copy

    log = await _etcd(url)
    try:
        return await etcd_copy.read(log)
    finally:
        await log.close()


async def _write_etcd(url: str, database: Path) -> None:
    """Write the state in a database to etcd."""
    from dray.store import etcd_copy, snapshot

    log = await _etcd(url)
    try:
        await etcd_copy.write(log, snapshot.read(database))
    finally:
        await log.close()


async def _etcd(url: str) -> EtcdLog:
    """Return an open connection to etcd.

    Raises StoreError if the URL is not one of etcd or the connection fails.
    """
    from dray.store import EtcdLog, StoreError, open_log

    if not url.startswith("etcd://"):
        raise StoreError(f"--store {url}: expected etcd://HOST:PORT,…; without --store the database in --dir is meant")
    log = await open_log(url)
    assert isinstance(log, EtcdLog)
    return log


def _database(place: Path) -> Path:
    """Return the database file, given the file or a cluster directory."""
    return place / _DATABASE if place.is_dir() else place


def _summary(found: Recovered) -> str:
    """Return lines about the number of objects and what is lost."""
    lines = [f"{len(found.rows)} objects at revision {found.head}"]
    if found.unverified:
        lines.append(f"{found.unverified} rows have no checksum, since an older dray wrote them")
    if found.lost:
        lines.append("lost, so that objects may be missing, older, or back after their deletion:")
        lines += [f"  {line}" for line in found.lost[:_MOST_LINES]]
        if len(found.lost) > _MOST_LINES:
            lines.append(f"  and {len(found.lost) - _MOST_LINES} more")
    else:
        lines.append("nothing is lost")
    return "\n".join(lines)


def _copy_keys(source: Path, target: Path) -> None:
    """Copy key files that do not exist in the target."""
    from dray.apiserver.security.certificates import write_private

    for file in source.iterdir():
        if file.suffix in _KEYS and not (target / file.name).exists():
            write_private(target / file.name, read_regular(file))


async def _repair(path: Path) -> int:
    """Delete objects that cannot be decoded, and repair device holds and Service addresses.

    Returns the number deleted.
    """
    from dray.apiserver.read.storage import decode
    from dray.apiserver.write.holds import PREFIX, DeviceHolds
    from dray.apiserver.write.service_addresses import NODE_PORTS, ServiceAddresses
    from dray.store import Cache, KeyVersion, Op, SqliteLog

    def is_whole(version: KeyVersion) -> bool:
        try:
            return version.key.startswith((PREFIX, NODE_PORTS)) or version.object is not None
        except Exception:  # a key or value of unknown form may raise any error
            return False

    log = await SqliteLog.open(path)
    cache = await Cache.open(log, decode)
    broken = [version.key for version in cache.list("").versions if not is_whole(version)]
    for key in broken:
        await cache.commit([Op(key, None)])
    for op in DeviceHolds(cache).repairs():
        await cache.commit([op])
    for ops in ServiceAddresses(cache).repairs():
        await cache.commit(ops)
    await cache.close()
    await log.close()
    return len(broken)
