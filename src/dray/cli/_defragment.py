"""`dray what-if --defragment`: print the pod moves that make room."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.cli._output import data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dray.questions.defragmenting import Defragmentation
    from dray.questions.supposing import SupposedChange
    from dray.sim.cluster import Cluster
    from dray.sim.demands import PodBatch


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--defragment",
        action="store_true",
        help="print the smallest set of pod moves after which the manifest fits; without -f, the largest claim per class",
    )
    parser.add_argument(
        "--class",
        default="",
        dest="of_class",
        metavar="CLASS",
        help="with --defragment and without -f: only this device class (default: all)",
    )
    parser.add_argument(
        "--most-moves",
        type=int,
        default=4,
        metavar="N",
        help="with --defragment: maximum number of moves (default: %(default)s)",
    )


def misused(args: argparse.Namespace) -> str:
    """Return the error in the options of --defragment, or ""."""
    if not args.defragment:
        return "--class needs --defragment" if args.of_class else ""
    if args.how_many:
        return "--how-many and --defragment are different questions"
    if args.of_class and args.filename:
        return "--class is for the largest claim; -f MANIFEST says what should fit"
    return "--most-moves: expected a number from 0" if args.most_moves < 0 else ""


def found(
    args: argparse.Namespace, cluster: Cluster, demand: PodBatch | None, supposed: Iterable[SupposedChange]
) -> list[Defragmentation]:
    """Return the moves for the demand, or, without demand, the largest claim for each class."""
    from dray.questions.defragmenting import defragment, largest_claims

    if demand is not None:
        return [defragment(cluster, demand, supposed, most=args.most_moves)]
    return largest_claims(cluster, args.of_class, supposed, most=args.most_moves)


def shown(answers: list[Defragmentation], output: str) -> str:
    """Return the results as text or JSON.

    `output` is "json"; any other gives text.
    """
    if output == "json":
        from dray.questions.defragmenting import defragmentation_tree

        return data([defragmentation_tree(one) for one in answers], output)
    return "\n".join(line for one in answers for line in _lines(one)) or "there are no device classes"


def _lines(answer: Defragmentation) -> Iterator[str]:
    """Yield the lines of one result."""
    plan = answer.plan
    if answer.device_class:
        yield f"class {answer.device_class}: the largest claim on one node is for {answer.devices} devices{_now(answer)}"
    elif plan is None:
        certain = "no moves make room" if answer.complete else "no moves were found that make room; not all were tried"
        yield f"{certain} (at most as many as --most-moves)"
    elif not plan.moves:
        yield "it fits without moves"
    for number, move in enumerate(plan.moves if plan is not None else (), 1):
        yield f"{number}. move pod {move.pod} from {move.source} to {move.target}"
    for one in plan.pods if plan is not None and not answer.device_class else ():
        yield f"then pod {one.pod} goes to {one.node}"
    if answer.device_class and not answer.complete:
        yield "more might be possible: not all moves were tried"


def _now(answer: Defragmentation) -> str:
    """Return the end of the line about the largest claim: its size without moves."""
    if answer.devices == answer.devices_now:
        return ", without moves"
    return f"; now it is for {answer.devices_now}. After these moves:"
