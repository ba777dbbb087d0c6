"""`dray what-if`: whether and where a manifest fits, how often, and with nodes removed, added or tainted.

Reads a cluster or recording and changes nothing. Exits with 1 if a pod does not fit. `dray.questions.supposing`
computes the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dray.api.quoting import visible
from dray.assembly.collector import without_collections
from dray.cli import GATES_HELP, Subparsers, _defragment, fail
from dray.cli._cluster import add_options, read_all
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.api.wire import Wire
    from dray.questions.defragmenting import Defragmentation
    from dray.questions.supposing import SupposedChange, WhatIfAnswer
    from dray.sim.cluster import Cluster
    from dray.sim.demands import PodBatch
    from dray.sim.what_if import HowMany, PodOutcome


_LIMIT = 100_000


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "what-if",
        help="try a manifest or a change of nodes in a simulation",
        description="Show whether and where the pods of a manifest fit in a cluster or a recording. Changes nothing.",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="MANIFEST",
        help="manifest with Pods, ResourceClaims, Deployments, StatefulSets or Jobs; -: standard input; repeatable",
    )
    parser.add_argument(
        "--recording", action="append", metavar="FILE", help="use a recording instead of a cluster; repeatable"
    )
    parser.add_argument(
        "--profile",
        metavar="NAME*N,…",
        help="use nodes of these profiles instead of a cluster, or in addition to a recording: dgx-h100*4,cpu*10",
    )
    parser.add_argument("--how-many", action="store_true", help="count how many copies of the manifest fit")
    parser.add_argument(
        "--at-most",
        type=_count,
        default=_LIMIT,
        metavar="N",
        help="with --how-many: stop counting at N (default: %(default)s)",
    )
    parser.add_argument(
        "--drain", action="append", default=[], metavar="NODE", help="assume that NODE is drained; repeatable"
    )
    parser.add_argument(
        "--taint",
        action="append",
        default=[],
        nargs=2,
        metavar=("TARGET", "KEY=VALUE:NoSchedule"),
        help="assume a taint on a node or on devices (TARGET: NODE or DRIVER/POOL[/DEVICE]); repeatable",
    )
    parser.add_argument("--add-nodes", type=_count, default=0, metavar="N", help="assume N more nodes; needs --like")
    parser.add_argument("--like", default="", metavar="NODE", help="node that --add-nodes copies, with its devices")
    _defragment.add_options(parser)
    parser.add_argument(
        "-n", "--namespace", default="default", help="namespace for objects without one (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: %(default)s)"
    )
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.api.gates import FeatureGates, GateError
    from dray.api.manifests import ManifestError
    from dray.client.config import ConfigError
    from dray.sim.changes import ChangeError
    from dray.sim.demands import DemandError
    from dray.sim.profiles import ProfileError

    problems = ApiError, ChangeError, ConfigError, DemandError, GateError, ManifestError, ProfileError, OSError
    if wrong := _misused(args):
        return fail("what-if", wrong, 2)
    try:
        with without_collections():
            gates = FeatureGates.parse(args.feature_gates)
            if args.defragment:
                moves = _defragmented(args, gates)
                print(_defragment.shown(moves, args.output))
                return 0 if all(one.fits for one in moves) else 1
            found = _answered(args, gates)
    except problems as error:
        return fail("what-if", error, 2)
    print(_shown(found, args.output))
    return 0 if found.fits else 1


def _misused(args: argparse.Namespace) -> str:
    """Return the error in the options, or ""."""
    if wrong := _defragment.misused(args):
        return wrong
    if not args.filename and not args.drain and not args.defragment:
        return "expected -f MANIFEST, --drain NODE to see where its pods would go, or --defragment"
    if args.how_many and not args.filename:
        return "--how-many needs -f MANIFEST"
    if bool(args.add_nodes) != bool(args.like):
        return "--add-nodes N and --like NODE belong together"
    return ""


def _answered(args: argparse.Namespace, gates: FeatureGates) -> WhatIfAnswer:
    """Return the answer to the question in the options."""
    from dray.questions.supposing import what_if

    return what_if(*_question(args, gates), at_most=args.at_most if args.how_many else 0)


def _defragmented(args: argparse.Namespace, gates: FeatureGates) -> list[Defragmentation]:
    """Return the pod moves that make room for the demand or the largest claims."""
    return _defragment.found(args, *_question(args, gates))


def _question(args: argparse.Namespace, gates: FeatureGates) -> tuple[Cluster, PodBatch | None, list[SupposedChange]]:
    """Return the cluster, the demand of the manifest, and the assumed changes.

    The demand is None without a manifest. Warns on stderr about objects that may not be listed.
    """
    from dray.questions.supposing import DrainNode, cluster_of
    from dray.recordings.manifests import read_manifests
    from dray.sim.demands import demand_of

    demand = demand_of(read_manifests(args.filename, gates), args.namespace) if args.filename else None
    objects, unread = _objects(args, gates)
    if unread:
        print(f"dray what-if: you may not list {', '.join(unread)}; the answer leaves them out", file=sys.stderr)
    return cluster_of(objects, gates), demand, [*changes_of(args), *map(DrainNode, args.drain)]


def changes_of(args: argparse.Namespace) -> list[SupposedChange]:
    """Return the changes that --taint and --add-nodes assume."""
    from dray.questions.supposing import AddNodes, AddTaint

    more = [AddNodes(args.like, args.add_nodes)] if args.add_nodes else []
    return [*(AddTaint(target, text) for target, text in args.taint), *more]


def supposed(args: argparse.Namespace, gates: FeatureGates) -> list[Wire]:
    """Return the nodes of --profile, with their devices and classes.

    Empty without --profile. Raises ProfileError if a profile is unknown or invalid.
    """
    from dray.api.manifests import object_of
    from dray.api.times import timestamp
    from dray.sim.profiles import objects_of

    trees = objects_of(args.profile, timestamp(time.time())) if args.profile else []
    return [object_of(tree, gates) for tree in trees]


def _objects(args: argparse.Namespace, gates: FeatureGates) -> tuple[Iterable[Wire], Iterable[str]]:
    """Return the objects of the cluster or recording, and the resources that could not be read."""
    if not args.recording and not args.profile:
        return asyncio.run(read_all(args))[:2]
    from dray.recordings.manifests import read_recordings

    nodes = supposed(args, gates)
    return [*read_recordings(args.recording or (), gates), *nodes], ()


def _count(text: str) -> int:
    """Parse a positive integer.

    Raises argparse.ArgumentTypeError for numbers below 1, ValueError for text that is not a number.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a number from 1")
    return number


# Answers as text


def _shown(found: WhatIfAnswer, output: str) -> str:
    """Return the answer as text or JSON."""
    if output == "json":
        from dray.questions.supposing import answer_tree

        return data(answer_tree(found), output)
    lines = [line for one in found.moved for line in _lines(one, "moves")]
    lines += [f"pod {pod} is preempted by pod {by}" for pod, by in found.preempted.items()]
    lines += [line for one in found.pods for line in _lines(one, "goes")]
    lines += [f"namespace {name} has a ResourceQuota, which is not considered" for name in found.quotas or ()]
    if found.copies is not None:
        lines.append(_count_line(found.copies))
    return visible("\n".join(lines or ["no pod has to move"]))


def _lines(one: PodOutcome, verb: str) -> list[str]:
    """Return the lines about one pod."""
    if not one.node:
        return [f"pod {one.pod} finds no place: {one.words}"]
    lines = [f"pod {one.pod} {verb} to {one.node}"]
    return lines + [f"  claim {use.claim}, request {use.request}: {use.device}" for use in one.devices]


def _count_line(count: HowMany) -> str:
    """Return the line about the number of copies that fit."""
    times = f"{count.copies} time{'' if count.copies == 1 else 's'}"
    if count.end is None:
        return f"it fits at least {times}; --at-most allows to count further"
    return f"it fits {times}; then pod {count.end.pod} finds no place: {count.end.words}"
