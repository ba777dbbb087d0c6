"""What `dray up` says when it is ready: what was taken over, what is off, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dray.assembly.description import counted

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.assembly.options import ServerOptions
    from dray.assembly.server import StartedServer

_NAMED = 5


def taken_over(started: StartedServer) -> str:
    """What an earlier start left, in words; empty for a new cluster."""
    found = ", ".join(f"{number} {plural}" for plural, number in started.found.items())
    rest = f"; removed, since nobody runs them now: {_listed(started.removed)}" if started.removed else ""
    return f"taken over from an earlier start: {found}{rest}" if found else ""


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


def next_steps(kubeconfig: Path, options: ServerOptions) -> tuple[str, ...]:
    """Return three commands to go on with, all of which work in a cluster with these options."""
    if getattr(options, "nodes", 0):
        third = "dray example tour"
    elif getattr(options, "agents", 0):
        third = "dray example driver"
    elif getattr(options, "profile", ""):
        third = "kubectl get resourceslices"
    else:
        third = "dray docs tutorials"
    return f"export KUBECONFIG={kubeconfig}", "kubectl get nodes", third


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
