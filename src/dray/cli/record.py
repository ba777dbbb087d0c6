"""`dray record`: what scheduling depends on in a cluster, as one file, for `dray what-if` and `dray lint`.

Writes nothing to the cluster. Left out: following what happens, and replaying it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli._cluster import add_options, read_all

if TYPE_CHECKING:
    from dray.sim.recording import Recording

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "record",
        help="record a cluster's nodes, devices, claims and pods into a file",
        description="Record what scheduling depends on: nodes, slices, classes, claims, pods, groups, quotas, budgets. "
        "Never recorded: secrets, environment, images, volumes, annotations, drivers' parameters.",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="of the recording; *.gz is compressed")
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="PATH",
        help="record these objects instead of a cluster's: what `kubectl get … -o json` wrote, - for stdin",
    )
    parser.add_argument(
        "--anonymous", action="store_true", help="replace names by numbers; attributes and classes stay"
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.api.manifests import ManifestError
    from dray.client.config import ConfigError
    from dray.sim.recording import to_bytes

    try:
        made = _from_files(args) if args.filename else _from_cluster(args)
        Path(args.output).write_bytes(to_bytes(made, compressed=args.output.endswith(".gz")))
    except (ApiError, ConfigError, ManifestError, OSError) as error:
        print(f"dray record: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {_summary(made)}")
    if made.unread:
        print(f"dray record: you may not list {', '.join(made.unread)}; they are not recorded", file=sys.stderr)
    return 0


def _from_files(args: argparse.Namespace) -> Recording:
    from dray.api.gates import FeatureGates
    from dray.api.manifests import ManifestError
    from dray.api.times import timestamp
    from dray.api.wire import Wire
    from dray.cli._manifests import read_manifests
    from dray.sim.recording import record

    objects = read_manifests(args.filename, FeatureGates()).all(Wire)
    made = record(objects, time=timestamp(time.time()), source=", ".join(args.filename), anonymous=args.anonymous)
    if not made.objects:
        raise ManifestError(f"{made.source}: there is nothing to record: no node, slice, class, claim or pod")
    return made


def _from_cluster(args: argparse.Namespace) -> Recording:
    from dray.api.times import timestamp
    from dray.sim.recording import record

    objects, unread, server = asyncio.run(read_all(args))
    return record(objects, time=timestamp(time.time()), source=server, unread=unread, anonymous=args.anonymous)


def _summary(made: Recording) -> str:
    """`3 Nodes, 1 Pod`."""
    counts = Counter(tree["kind"] for tree in made.objects)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"
