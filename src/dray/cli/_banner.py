"""Messages of `dray up` when it is ready: existing objects, disabled features, and next steps."""

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
    """Return the message about objects from an earlier start, or "" for a new cluster."""
    found = ", ".join(f"{number} {plural}" for plural, number in started.found.items())
    rest = f"; removed, since nobody runs them now: {_listed(started.removed)}" if started.removed else ""
    return f"taken over from an earlier start: {found}{rest}" if found else ""


def _listed(names: list[str]) -> str:
    """Return names as text, at most five of them."""
    shown = ", ".join(sorted(names)[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def off(gates: FeatureGates) -> str:
    """Return the message about disabled features and how to enable those that are off by default, or ""."""
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
    """Return the lines below the first, indented and wrapped to the terminal's width."""
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
