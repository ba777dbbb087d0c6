"""`dray record`: record what scheduling in a cluster depends on to a file; with --follow, also its changes over time.

Writes nothing to the cluster. `replay`, `what_if` and `lint` use the file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail
from dray.cli._cluster import add_options, connect, read_all

if TYPE_CHECKING:
    from dray.api.wire import Wire
    from dray.recordings.history import HistoryFile, RecordedEvent
    from dray.recordings.recording import Recording


_NOTHING_TO_READ = "nothing was recorded, and no file was written"
_SHOWN = 5  # maximum number of names to print


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "record",
        help="record the nodes, devices, claims and pods of a cluster to a file",
        description="Record what scheduling depends on: nodes, slices, classes, claims, pods, groups, quotas, budgets. "
        "Never recorded: secrets, environment, images, volumes, annotations, drivers' parameters.",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="file to write; compressed if it ends in .gz"
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="PATH",
        help="record objects from a file (output of `kubectl get … -o json`) instead of a cluster; -: standard input; repeatable",
    )
    parser.add_argument(
        "--anonymous", action="store_true", help="replace names by numbers; attributes and class names are kept"
    )
    parser.add_argument("--follow", action="store_true", help="also record changes until Ctrl-C, for `dray replay`")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="with --follow: stop after N seconds (default: run until Ctrl-C)"
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.api.manifests import ManifestError
    from dray.client.config import ConfigError
    from dray.recordings.recording import to_bytes

    if wrong := _misused(args):
        return fail("record", wrong, 2)
    try:
        if args.follow:
            return _followed(args)
        made, objects = _from_files(args) if args.filename else _from_cluster(args)
        if made.unread and not made.objects:
            return fail("record", f"{_NOTHING_TO_READ}: you may not list {', '.join(made.unread)}")
        Path(args.output).write_bytes(to_bytes(made, compressed=args.output.endswith(".gz")))
    except ManifestError as error:
        return fail("record", error, 2)
    except (ApiError, ConfigError, OSError) as error:
        return fail("record", error)
    _tell(args, made, objects)
    return 0


def _misused(args: argparse.Namespace) -> str:
    """Return the error in the options, or ""."""
    if args.follow and args.filename:
        return "--follow needs a cluster: what happens is not in files"
    if args.seconds is not None and not (args.follow and args.seconds > 0):
        return "--seconds N belongs to --follow, with a number above 0"
    return ""


def _tell(args: argparse.Namespace, made: Recording, objects: Iterable[Wire]) -> None:
    """Print a summary of the recording, and warnings about remaining names and resources that could not be read."""
    from dray.recordings.anonymous import names_left

    print(f"{args.output}: {_summary(made)}", flush=True)
    left = names_left(objects, made.objects) if args.anonymous else []
    if left:
        some = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
        print(
            f"dray record: names that can still be read in attributes, expressions or names of devices: {some}",
            file=sys.stderr,
        )
    if made.unread:
        print(f"dray record: you may not list {', '.join(made.unread)}; they are not recorded", file=sys.stderr)


def _from_files(args: argparse.Namespace) -> tuple[Recording, Iterable[Wire]]:
    """Return a recording of objects in files, and the objects. Raises ManifestError if there is nothing to record."""
    from dray.api.gates import FeatureGates
    from dray.api.manifests import ManifestError
    from dray.api.times import timestamp
    from dray.recordings.manifests import read_manifests
    from dray.recordings.recording import record

    objects = read_manifests(args.filename, FeatureGates())
    made = record(objects, time=timestamp(time.time()), source=", ".join(args.filename), anonymous=args.anonymous)
    if not made.objects:
        raise ManifestError(f"{made.source}: there is nothing to record: no node, slice, class, claim or pod")
    return made, objects


def _from_cluster(args: argparse.Namespace) -> tuple[Recording, Iterable[Wire]]:
    """Return a recording of the cluster, and the objects."""
    from dray.api.times import timestamp
    from dray.recordings.recording import record

    objects, unread, server = asyncio.run(read_all(args))
    made = record(objects, time=timestamp(time.time()), source=server, unread=unread, anonymous=args.anonymous)
    return made, objects


def _summary(made: Recording) -> str:
    """Return the numbers of objects, such as `3 Nodes, 1 Pod`.

    "nothing" without objects.
    """
    counts = Counter(tree["kind"] for tree in made.objects)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"


# Following


def _followed(args: argparse.Namespace) -> int:
    """Record changes until Ctrl-C or for a given time. Returns the exit status.

    Raises the error that ended the recording, if any.
    """
    following = _Following(args)
    with suppress(KeyboardInterrupt):  # ends --follow
        asyncio.run(following.run())
    if following.failure is not None:
        raise following.failure
    print(f"{args.output}: {following.changes} changes in {following.seconds:.0f} s")
    return 0


class _Following:
    """One run of --follow."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._begun = time.monotonic()
        self._stop = asyncio.Event()
        self._file: HistoryFile | None = None
        self.failure: OSError | None = None

    @property
    def changes(self) -> int:
        """Number of recorded changes."""
        return self._file.events if self._file is not None else 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    async def run(self) -> None:
        """Record until Ctrl-C, the time limit, or a write error.

        Raises Forbidden if the user may read nothing.
        """
        from dray.api.errors import Forbidden
        from dray.api.times import timestamp
        from dray.recordings.following import Follower

        async with connect(self._args, briefly=False) as client:
            follower = Follower(client, time.monotonic, anonymous=self._args.anonymous)
            async with follower.following():
                self._begun = time.monotonic()
                if follower.unread and not follower.objects():
                    raise Forbidden(f"{_NOTHING_TO_READ}: you may not list {', '.join(follower.unread)}")
                made = follower.begin(timestamp(time.time()), client.config.server, self._open)
                try:
                    _tell(self._args, made, follower.objects())
                    async with asyncio.timeout(self._args.seconds):
                        await self._stop.wait()
                except TimeoutError:
                    return
                finally:
                    if self._file is not None:
                        self._file.close()

    def _open(self, recording: Recording) -> Callable[[Iterable[RecordedEvent]], None]:
        """Create the file with the recording. Returns the function that appends changes."""
        from dray.recordings.history import HistoryFile

        self._file = HistoryFile(self._args.output, recording)
        return self._write

    def _write(self, events: Iterable[RecordedEvent]) -> None:
        """Write changes to the file.

        On an error, recording stops, because an informer would continue without the file.
        """
        assert self._file is not None  # open from the beginning
        try:
            self._file.write(events)
        except OSError as error:
            self.failure = error
            self._stop.set()
