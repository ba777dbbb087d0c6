"""`dray allocate`: run the allocator without a cluster, on scenarios or Kubernetes manifests.

For manifests, the command prints the devices of each request, or for each request why there are none. With `-o json`,
and always for scenarios, it prints one JSON line per question: {"id", "outcome", "result", "message", "ms"}; then
failures of manifests are explained on standard error. Allocations are not written anywhere.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.cli import Subparsers, fail

if TYPE_CHECKING:
    from dray.allocator import Allocated, AllocationOutcome
    from dray.api.types.resource import ResourceClaim


ALLOCATED, WRONG_INPUT = 0, 2


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "allocate",
        help="allocate devices offline, from manifests or scenarios",
        description="Allocate devices as the scheduler would, without a cluster. Exit status 1 if a claim cannot be allocated.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--scenarios", metavar="FILE", help="file with one JSON object per line: node, classes, slices, claims, …"
    )
    source.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="PATH",
        help="Kubernetes objects as YAML or JSON; -: standard input; repeatable",
    )
    parser.add_argument(
        "--node", metavar="NAME", help="with -f: node to allocate on (default: the only node in the files)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="with -f: output format (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="budget per allocation; one second is 50,000 steps (default: %(default)g)",
    )
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="A=true,…",
        help="with -f: feature gates to turn on or off; see `dray gates`",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.allocator.scenarios import ScenarioError
    from dray.api.gates import GateError
    from dray.api.manifests import ManifestError
    from dray.questions.allocating import UnclearManifests

    try:
        return _scenarios(args) if args.scenarios else _manifests(args)
    except (UnclearManifests, ManifestError, ScenarioError, GateError, OSError) as error:
        return fail("allocate", error, WRONG_INPUT)


def answer(id_: str, outcome: AllocationOutcome, milliseconds: float) -> dict[str, Any]:
    """Return the JSON line of an outcome as a dict."""
    from dray.allocator import Allocated, Failed, GaveUp
    from dray.api.reasons.wording import input_problem, timed_out
    from dray.api.reasons.wording import line as words

    line: dict[str, Any] = {"id": id_}
    match outcome:
        case Allocated():
            line |= {"outcome": "allocated", "result": list(outcome.results)}
        case Failed():
            line |= {"outcome": "error", "message": input_problem(outcome.problem)}
        case GaveUp():
            line |= {"outcome": "gave-up", "message": timed_out(outcome.progress)}
        case _:
            line |= {"outcome": "none", "message": words(outcome.explain())}
    return line | {"ms": round(milliseconds, 3)}


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")


# Scenarios


def _scenarios(args: argparse.Namespace) -> int:
    """Allocate for each scenario in a file, and print one JSON line each. Returns the exit status.

    The status is 0, whether or not the devices can be allocated.
    """
    from dray.allocator import steps_in
    from dray.allocator.scenarios import read_scenario

    gc.collect()
    gc.freeze()  # imported modules stay, so collections need not visit them
    with open(args.scenarios, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            scenario = read_scenario(line, f"{args.scenarios}, line {number}")
            start = time.monotonic()
            outcome = scenario.ask(steps_in(args.timeout))
            _print(answer(scenario.id, outcome, (time.monotonic() - start) * 1000))
    return ALLOCATED


# Manifests


def _manifests(args: argparse.Namespace) -> int:
    """Allocate for manifests and print the results. Returns the exit status.

    The status is 1 if any claims cannot be allocated, else 0.
    """
    from dray.allocator import Allocated, Unallocatable, steps_in
    from dray.api.gates import FeatureGates
    from dray.api.reasons.wording import tree
    from dray.questions import Snapshot, allocations
    from dray.questions.allocating import node_of
    from dray.recordings.manifests import read_manifests

    gates = FeatureGates.parse(args.feature_gates)
    manifests = Snapshot.of(*read_manifests(args.filename, gates))
    node = node_of(manifests, args.node)
    left_over, start = False, time.monotonic()
    for found in allocations(manifests, node, gates, steps_in(args.timeout)):
        answered = answer(found.id, found.outcome, (time.monotonic() - start) * 1000)
        if args.output == "json":
            _print(answered)
        if not isinstance(found.outcome, Allocated):
            left_over = True
            to = sys.stderr if args.output == "json" else sys.stdout
            print(f"{found.id} cannot be allocated: {answered['message']}", file=to)
            if isinstance(found.outcome, Unallocatable):
                print(tree(found.outcome.explain()), file=to)
        elif args.output == "text":
            print(f"{found.id} on {node.metadata.name}:", *_lines(found.claims, found.outcome), sep="\n")
        start = time.monotonic()
    return int(left_over)


def _lines(claims: Sequence[ResourceClaim], outcome: Allocated) -> Iterator[str]:
    """Yield one line per allocated device.

    Without claims, one line says that nothing is requested.
    """
    if not claims:
        yield "  nothing: it asks for no devices"
    for claim, result in zip(claims, outcome.results, strict=True):
        for one in result["devices"]["results"]:
            device = "/".join((one["driver"], one["pool"], one["device"]))
            yield f"  claim {claim.metadata.name}, request {one['request']}: {device}"
