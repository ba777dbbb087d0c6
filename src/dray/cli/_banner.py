"""What `dray up` says when it is ready: what runs, what was taken over, what is off, and what to do next."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.apiserver.read.storage import Storage

_TAKEN_OVER = ("nodes", "pods", "resourceclaims")
_NAMED = 5


def runs(args: argparse.Namespace) -> tuple[str, ...]:
    """The parts of a cluster in words."""
    lines = [f"API server, {'state in memory' if args.store == 'memory' else f'state in {args.store}'}"]
    if not hasattr(args, "nodes"):
        return tuple(lines)
    lines.append("scheduler, controllers")
    if args.nodes:
        lines.append(f"{counted(args.nodes, 'simulated node')} × {counted(args.devices, 'device')}")
    if args.profile:
        lines.append(f"simulated nodes {args.profile}")
    if args.agents:
        runtime = _runtime(args.runtime)
        lines.append(f"{counted(args.agents, 'node agent')}, runtime {runtime}{not_isolated(runtime)}")
    if args.autoscale:
        driven = f", ordered by Cluster Autoscaler at {args.provider_address}" if args.provider_address else ""
        lines.append(f"simulated nodes of {args.autoscale} as pods need them{driven}")
    if not (args.nodes or args.profile or args.agents or args.autoscale):
        lines.append("no nodes yet: --nodes 3 simulates some, --agents 1 runs containers on this machine")
    return tuple(lines)


def taken_over(storage: Storage, args: argparse.Namespace) -> str:
    """What an earlier start left, in words; empty for a new cluster."""
    from dray.api.resources import RESOURCES
    from dray.cli._parts import leftovers

    found = []
    for plural in _TAKEN_OVER:
        resource = next(one for one in RESOURCES if one.plural == plural)
        number = sum(1 for _ in storage.list(resource))
        if number:
            found.append(f"{number} {plural}")
    removed = leftovers(storage, args) if hasattr(args, "nodes") else []
    rest = f"; removed, since nobody runs them now: {_listed(removed)}" if removed else ""
    return f"taken over from an earlier start: {', '.join(found)}{rest}" if found else ""


def _listed(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def off(gates: FeatureGates) -> str:
    """How many features are off, and how to turn on those that are off by default."""
    from dray.api.gates import GATES

    missing = [gate for gate in GATES if not gates.served(gate.name)]
    alpha = sum(gate.stage == "alpha" for gate in missing)
    if not missing:
        return ""
    told = f"{counted(len(missing), 'feature')} off (`dray gates`)"
    them = "them" if alpha == len(missing) else f"{alpha} of them"
    return f"{told}; --feature-gates AllAlpha=true turns {them} on" if alpha else told


def next_steps(kubeconfig: Path, simulated: bool) -> tuple[str, ...]:
    """Three commands to go on with."""
    third = "kubectl get resourceslices" if simulated else "dray example tour"
    return f"export KUBECONFIG={kubeconfig}", "kubectl get nodes", third


def _runtime(name: str) -> str:
    from dray.node.runtimes import AUTO, unavailable

    if name != AUTO:
        return name
    return "process" if unavailable("bwrap") else "bwrap"


def not_isolated(runtime: str) -> str:
    return {
        "process": " (containers are plain processes of yours: files, network and other processes are not isolated)",
        "bwrap": " (own mounts, devices and processes; the network is the machine's)",
        "fake": " (nothing is executed)",
    }.get(runtime, "")


def shown(lines: Iterable[str], width: int | None = None) -> list[str]:
    """The lines below the first, broken at words where they are too long for a terminal so wide."""
    import textwrap

    found: list[str] = []
    for line in lines:
        if width is None or len(line) + 2 <= width:
            found.append(f"  {line}")
        else:
            found += textwrap.wrap(
                line,
                width,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return found


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
