"""`dray top devices|pools|claims`: what is in use, as a table for people or as data, on any cluster.

Who may not read claims still learns how full pools are: then the numbers are asked for with ResourcePoolStatusRequests,
which are deleted again. `--watch` reads anew every few seconds and draws in place.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from dray.cli._cluster import add_options, connect

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from dray.client import Client
    from dray.inspect.snapshot import Snapshot

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_BAR = 20  # characters of a full bar
_PIPE_WIDTH = 240  # wide enough for the longest names that there are
_PATIENCE_SECONDS = 30.0  # how long an answer to a request for pool status is waited for
_ASKING_SECONDS = 10.0  # between requests for pool status, of which a user may make ten a minute
_TTL_SECONDS = 60  # a request that could not be deleted goes by itself


class Refused(Exception):
    """What cannot be shown, and what would do instead."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "top",
        help="show which devices, pools and claims are in use",
        description="Show which devices, pools and claims are in use.",
    )
    parser.add_argument("what", choices=("devices", "pools", "claims"))
    parser.add_argument("-o", "--output", choices=("table", "wide", "json", "yaml"), default="table")
    parser.add_argument("-w", "--watch", action="store_true", help="until interrupted")
    parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="of --watch (%(default)g)")
    parser.add_argument("--driver", default="", help="only devices of this driver")
    parser.add_argument("-n", "--namespace", default="", help="only claims of this namespace")
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.client.config import ConfigError

    if args.watch and args.output in ("json", "yaml"):
        print("dray top: --watch draws a table; leave it out with -o json or yaml", file=sys.stderr)
        return 2
    if args.interval <= 0:
        print(f"dray top: --interval: expected more than 0 seconds, not {args.interval:g}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_watch(args) if args.watch else _once(args))
    except (ApiError, ConfigError, Refused) as error:
        print(f"dray top: {error}", file=sys.stderr)
        return 1
    return 0


def _console() -> Console:
    """Whoever reads from a pipe wants whole names, however narrow a terminal would be."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)


async def _once(args: argparse.Namespace) -> None:
    async with connect(args) as client:
        rows, _ = await rows_of(client, args)
    if args.output in ("json", "yaml"):
        print(_data(rows, args.output))
    else:
        _console().print(picture(args, rows), highlight=False)


async def _watch(args: argparse.Namespace) -> None:
    """Draw in place on a terminal, and one picture after the other into anything else."""
    from rich.live import Live

    console = _console()
    async with connect(args) as client:
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                rows, asked = await rows_of(client, args)
                if console.is_terminal:
                    live.update(picture(args, rows), refresh=True)
                else:
                    console.print(picture(args, rows), highlight=False)
                    sys.stdout.flush()
                await asyncio.sleep(max(args.interval, _ASKING_SECONDS if asked else 0))


# Rows


async def rows_of(client: Client, args: argparse.Namespace) -> tuple[Sequence[Any], bool]:
    """The rows, and whether they had to be asked for."""
    from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.inspect import occupancy
    from dray.inspect.snapshot import read

    wanted = [(ResourceSlice, ""), (ResourceClaim, args.namespace), (DeviceTaintRule, "")]
    snapshot = await read(client, wanted, args.namespace)
    if args.what == "claims":
        _must_read(snapshot, ResourceClaim, "give a namespace with -n")
        return occupancy.claim_rows(snapshot, args.namespace, args.driver), False
    if args.what == "pools" and snapshot.unreadable & {ResourceClaim, ResourceSlice}:
        return occupancy.answered_rows(await _ask(client, snapshot, args.driver)), True
    _must_read(snapshot, ResourceClaim, "`dray top pools` tells how full pools are")
    _must_read(snapshot, ResourceSlice, "`dray top pools --driver NAME` tells how full pools are")
    make = occupancy.pool_rows if args.what == "pools" else occupancy.device_rows
    return make(snapshot, args.driver), False


def _must_read(snapshot: Snapshot, type_: type[Any], instead: str) -> None:
    from dray.api.resources import BY_TYPE

    if type_ in snapshot.unreadable:
        raise Refused(f"you may not list {BY_TYPE[type_].plural}; {instead}")


async def _ask(client: Client, snapshot: Snapshot, driver: str) -> list[Any]:
    """Answers of the controller, one for each driver."""
    from dray.api.types.resource import ResourceSlice

    drivers = [driver] if driver else sorted({one.spec.driver for one in snapshot.all(ResourceSlice)})
    if not drivers and ResourceSlice in snapshot.unreadable:
        raise Refused("you may list neither resourceclaims nor resourceslices; say which driver with --driver NAME")
    return [await _answer(client, name) for name in drivers]


async def _answer(client: Client, driver: str) -> Any:
    from dray.api.types.resource import ResourcePoolStatusRequest as Request

    name = f"dray-top-{time.time_ns():x}"
    spec = {"driver": driver, "limit": 1000, "ttlSecondsAfterComplete": _TTL_SECONDS}
    made = await client.create(Request, {"metadata": {"name": name}, "spec": spec})
    try:
        watch = client.watch(
            Request,
            fields=f"metadata.name={name}",
            resource_version=made.metadata.resourceVersion,
            timeout=_PATIENCE_SECONDS,
        )
        async with aclosing(watch):
            async for batch in watch:
                for event in batch:
                    status = event.object.status
                    if status is not None and status.observationTime is not None:
                        return event.object
    finally:
        await client.delete(Request, name)
    raise Refused(
        f"nobody answered within {_PATIENCE_SECONDS:g} s; `dray explain request NAME` tells why a request waits"
    )


# Drawing


def picture(args: argparse.Namespace, rows: Sequence[Any]) -> Group:
    """Table and totals."""
    from rich.console import Group

    return Group(table(args.what, rows, wide=args.output == "wide"), *summary(rows))


def table(what: str, rows: Sequence[Any], *, wide: bool) -> Table:
    """The rows as people read them."""
    drawn: Table = {"pools": _pools, "devices": _devices, "claims": _claims}[what](rows, wide)
    return drawn


def summary(rows: Sequence[Any]) -> list[str]:
    """Totals below the table of pools."""
    from dray.inspect.occupancy import PoolRow

    pools = [row for row in rows if isinstance(row, PoolRow)]
    if not pools:
        return []
    total, allocated, available, unavailable = (
        sum(getattr(row, name) for row in pools) for name in ("total", "allocated", "available", "unavailable")
    )
    return [
        f"{len(pools)} pools, {total} devices: {allocated} allocated, {available} available, {unavailable} unavailable"
    ]


def _blank(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", no_wrap=column != "PROBLEM")
    return drawn


def bar(share: float) -> Any:
    """`██████████░░░░░░░░░░  50 %`, in a colour that says how full that is."""
    from rich.text import Text

    full = round(share * _BAR)
    colour = "green" if share < 0.7 else "yellow" if share < 0.95 else "red"
    text = Text("█" * full, style=colour)
    text.append("░" * (_BAR - full), style="dim")
    text.append(f" {share * 100:3.0f} %")
    return text


def _pools(rows: Sequence[Any], wide: bool) -> Table:
    numbers = ("TOTAL", "ALLOCATED", "AVAILABLE", "UNAVAILABLE", "SLICES", "GENERATION")
    more = ("SLICES", "GENERATION") if wide else ()
    drawn = _blank("DRIVER", "POOL", "NODE", *numbers[:4], "UTILISATION", *more, "PROBLEM", right=numbers)
    for row in rows:
        extra = (str(row.slices), str(row.generation)) if wide else ()
        counts = (str(n) for n in (row.total, row.allocated, row.available, row.unavailable))
        drawn.add_row(row.driver, row.pool, row.node, *counts, bar(row.utilisation), *extra, row.problem)
    return drawn


_COLOURS = {
    "free": "green",
    "allocated": "red",
    "shared": "yellow",
    "share": "red",
    "blocked": "yellow",
    "tainted": "yellow",
    "unusable": "magenta",
}


def _devices(rows: Sequence[Any], wide: bool) -> Table:
    from rich.text import Text

    from dray.cli._device_tree import lines

    found = [*lines(rows)]
    fits = ("STILL FITS",) if any(line.fits for line in found) else ()
    more = ("CAPACITY", "ATTRIBUTES") if wide else ()
    drawn = _blank("DRIVER", "POOL", "DEVICE", "NODE", "STATE", "CLAIM", "USED BY", *fits, *more)
    for line in found:
        row, is_device = line.row, line.state in _COLOURS and line.state != "share"
        state = bar(line.used) if line.used is not None else Text(line.state, style=_COLOURS[line.state])
        extra: tuple[str, ...] = (line.fits,) if fits else ()
        extra += ((_pairs(row.capacity), _pairs(row.attributes)) if is_device else ("", "")) if wide else ()
        drawn.add_row(row.driver, row.pool, line.name, row.node, state, line.claim, _few(line.used_by), *extra)
    return drawn


def _claims(rows: Sequence[Any], wide: bool) -> Table:
    more = ("DEVICE NAMES",) if wide else ()
    drawn = _blank("NAMESPACE", "NAME", "STATE", "WANTS", "DEVICES", "NODE", "USED BY", *more, right=("DEVICES",))
    for row in rows:
        extra = (", ".join(row.devices),) if wide else ()
        drawn.add_row(
            row.namespace,
            row.name,
            row.state,
            row.wants,
            str(len(row.devices)),
            _few(row.nodes),
            _few(row.used_by),
            *extra,
        )
    return drawn


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")


def _data(rows: Sequence[Any], output: str) -> str:
    import msgspec

    if output == "json":
        return msgspec.json.format(msgspec.json.encode(rows)).decode()
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(rows), sort_keys=False)).rstrip("\n")
