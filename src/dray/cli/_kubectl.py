"""`kubectl dra …`: the commands that complement kubectl, as a kubectl plugin.

kubectl runs any program named `kubectl-dra` on PATH and passes its arguments. The commands are dray's own, with
kubectl's options `-n`, `--context` and `--kubeconfig`. Commands that run components of a cluster are excluded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMANDS = ("allocate", "cel", "explain", "lint", "record", "top", "what-if")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line of `kubectl dra`. Returns the exit status."""
    from dray.cli import run_command

    return run_command("kubectl dra", COMMANDS, [*(sys.argv[1:] if argv is None else argv)])
