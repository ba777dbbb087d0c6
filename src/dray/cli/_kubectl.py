"""`kubectl dra …`: the commands that people use beside kubectl, under kubectl's roof.

kubectl runs any program named `kubectl-dra` on PATH and hands its arguments on. The commands are dray's own; their
options `-n`, `--context` and `--kubeconfig` are spelled as kubectl's. Left out: commands that run parts of a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMANDS = ("allocate", "cel", "explain", "lint", "record", "top", "what-if")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line of `kubectl dra`; returns the exit status."""
    from dray.cli import run_command

    return run_command("kubectl dra", COMMANDS, [*(sys.argv[1:] if argv is None else argv)])
