"""`dray what-if`: will a manifest fit, where, how many more of it, and what if nodes go, come or are tainted.

Reads a cluster or a recording and writes nothing. Exits 1 where a pod finds no place. The answering is
`dray.sim.what_if`; here are the options and the words.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dray.cli import Subparsers, fail, problem
from dray.cli._cluster import add_options, read_all
from dray.cli._collector import without_collections
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.api.wire import Wire
    from dray.sim.cluster import Cluster
    from dray.sim.demands import PodBatch
    from dray.sim.what_if import HowMany, PodOutcome


_LIMIT = 100_000


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "what-if",
        help="try a manifest, or a change of nodes, without doing it",
        description="Say whether and where the pods of a manifest fit into a cluster or a recording. Writes nothing.",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="MANIFEST",
        help="Pods, ResourceClaims, Deployments, StatefulSets, Jobs; - for stdin",
    )
    parser.add_argument("--recording", action="append", metavar="FILE", help="ask this instead of a cluster")
    parser.add_argument(
        "--profile", metavar="NAME*N,…", help="ask nodes that are not there: dgx-h100*4,cpu*10; alone, or beside FILE"
    )
    parser.add_argument("--how-many", action="store_true", help="count how many copies of the manifest fit")
    parser.add_argument("--at-most", type=_count, default=_LIMIT, metavar="N", help="stop counting here (%(default)s)")
    parser.add_argument("--drain", action="append", default=[], metavar="NODE", help="suppose that a node is drained")
    parser.add_argument(
        "--taint",
        action="append",
        default=[],
        nargs=2,
        metavar=("TARGET", "KEY=VALUE:NoSchedule"),
        help="suppose a taint on a node, or on devices (DRIVER/POOL[/DEVICE])",
    )
    parser.add_argument("--add-nodes", type=_count, default=0, metavar="N", help="suppose more nodes; with --like")
    parser.add_argument("--like", default="", metavar="NODE", help="the node that --add-nodes copies, with its devices")
    parser.add_argument("-n", "--namespace", default="default", help="of what names none (%(default)s)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(%(default)s)")
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help="see `dray gates`")
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
            found = _answered(args, FeatureGates.parse(args.feature_gates))
    except problems as error:
        return fail("what-if", problem(error), 2)
    print(_shown(found, args.output))
    return 0 if found["fits"] else 1


def _misused(args: argparse.Namespace) -> str:
    """What is wrong with the options; nothing if they make a question."""
    if not args.filename and not args.drain:
        return "expected -f MANIFEST, or --drain NODE to see where its pods would go"
    if args.how_many and not args.filename:
        return "--how-many needs -f MANIFEST"
    if bool(args.add_nodes) != bool(args.like):
        return "--add-nodes N and --like NODE belong together"
    return ""


def _answered(args: argparse.Namespace, gates: FeatureGates) -> dict[str, Any]:
    from dray.cli._manifests import read_manifests
    from dray.sim.cluster import Cluster
    from dray.sim.demands import demand_of

    demand = demand_of(read_manifests(args.filename, gates), args.namespace) if args.filename else None
    objects, unread = _objects(args, gates)
    if unread:
        print(f"dray what-if: you may not list {', '.join(unread)}; the answer leaves them out", file=sys.stderr)
    cluster = Cluster(objects, gates=gates)
    cluster.settle()
    with cluster.fork() as trial:
        return asked(args, trial, demand)


def asked(
    args: argparse.Namespace, trial: Cluster, demand: PodBatch | None, is_late: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """The answer, as it is printed in JSON. Counting ends, incomplete, when it is late. Raises ChangeError."""
    from dray.sim import changes, what_if

    change(args, trial)
    with what_if.preempting(trial) as preempted_first:
        moved = [pod for node in args.drain for pod in changes.drain(trial, node)]
        trial.settle()
    came_to = what_if.outcomes(trial, moved)
    count = what_if.how_many(trial, demand, args.at_most, is_late) if demand is not None and args.how_many else None
    with what_if.preempting(trial) as preempted:
        placed = what_if.place(trial, demand) if demand is not None else ()
    preempted = preempted_first | preempted
    found: dict[str, Any] = {
        "fits": all(one.node for one in (*came_to, *placed)),
        "pods": [outcome_tree(one) for one in placed],
        "moved": [outcome_tree(one) for one in came_to],
        "preempted": [{"pod": pod, "by": by} for pod, by in preempted.items()],
    }
    if demand is not None:
        found["quotas"] = _quotas(trial, demand)
    return found if count is None else found | {"howMany": _count_tree(count)}


def change(args: argparse.Namespace, cluster: Cluster) -> None:
    """Taint and add what --taint and --add-nodes say. Raises ChangeError."""
    from dray.sim import changes

    for target, text in args.taint:
        changes.taint(cluster, target, text)
    if args.add_nodes:
        changes.add_nodes(cluster, args.add_nodes, args.like)


def supposed(args: argparse.Namespace, gates: FeatureGates) -> list[Wire]:
    """The nodes that --profile asks for, with their devices and classes. Raises ProfileError."""
    from dray.api.manifests import object_of
    from dray.api.times import timestamp
    from dray.sim.profiles import objects_of

    trees = objects_of(args.profile, timestamp(time.time())) if args.profile else []
    return [object_of(tree, gates) for tree in trees]


def _objects(args: argparse.Namespace, gates: FeatureGates) -> tuple[Iterable[Wire], Iterable[str]]:
    """What there is, and what could not be read."""
    if not args.recording and not args.profile:
        return asyncio.run(read_all(args))[:2]
    from dray.cli._manifests import read_recordings

    nodes = supposed(args, gates)
    return [*read_recordings(args.recording or (), gates), *nodes], ()


def _quotas(trial: Cluster, demand: PodBatch) -> list[str]:
    """The namespaces whose quotas might refuse the manifest, which nobody counted."""
    from dray.api.types.core import ResourceQuota

    limited = {quota.metadata.namespace for quota in trial.all(ResourceQuota)}
    return sorted(limited & {pod.metadata.namespace for pod in demand.pods})


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a number from 1")
    return number


# Answers as trees and as text


def outcome_tree(one: PodOutcome) -> dict[str, Any]:
    if one.node:
        devices = [{"claim": use.claim, "request": use.request, "device": str(use.device)} for use in one.devices]
        return {"pod": one.pod, "node": one.node, "devices": devices}
    reasons = [
        {"rule": reason.rule, "code": reason.code, "subject": reason.subject, "nodes": nodes.bit_count()}
        for reason, nodes in (one.why.reasons if one.why else {}).items()
    ]
    return {"pod": one.pod, "node": None, "reasons": reasons, "message": one.words}


def _count_tree(count: HowMany) -> dict[str, Any]:
    if count.end is None:
        return {"copies": count.copies, "complete": False}
    return {"copies": count.copies, "complete": True, "endedBy": outcome_tree(count.end)}


def _shown(found: dict[str, Any], output: str) -> str:
    if output == "json":
        return data(found, output)
    lines = [line for one in found["moved"] for line in _lines(one, "moves")]
    lines += [f"pod {one['pod']} is preempted by pod {one['by']}" for one in found["preempted"]]
    lines += [line for one in found["pods"] for line in _lines(one, "goes")]
    lines += [f"namespace {name} has a ResourceQuota, which is not considered" for name in found.get("quotas", ())]
    if "howMany" in found:
        lines += _count_lines(found["howMany"])
    if not lines:
        lines = ["no pod has to move"]
    return "\n".join(lines)


def _lines(one: dict[str, Any], verb: str) -> list[str]:
    if one["node"] is None:
        return [f"pod {one['pod']} finds no place: {one['message']}"]
    lines = [f"pod {one['pod']} {verb} to {one['node']}"]
    return lines + [f"  claim {use['claim']}, request {use['request']}: {use['device']}" for use in one["devices"]]


def _count_lines(count: dict[str, Any]) -> list[str]:
    times = f"{count['copies']} time{'' if count['copies'] == 1 else 's'}"
    if not count["complete"]:
        return [f"it fits at least {times}; --at-most allows to count further"]
    end = count["endedBy"]
    return [f"it fits {times}; then pod {end['pod']} finds no place: {end['message']}"]
