"""The command `dray`: finds the command that is meant and runs it.

Each module here is a command with `add_parser(subparsers)` and `run(args)`. Only the module of the command that was
asked for is imported, so that `dray up` does not pay for the others; their own imports wait until `run`.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status."""
    return run_command("dray", commands(), list(sys.argv[1:] if argv is None else argv))


def run_command(prog: str, known: Sequence[str], arguments: list[str]) -> int:
    """Run one of the known commands."""
    wanted = [arguments[0]] if arguments and arguments[0] in known else known
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Dynamic Resource Allocation for Kubernetes, whole, in Python.",
        epilog=f"`{prog} COMMAND --help` tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"dray {version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in wanted:
        importlib.import_module(f"{__name__}.{name.replace('-', '_')}").add_parser(subparsers)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 1
    except KeyboardInterrupt:
        return 130


def commands() -> list[str]:
    """The names of all commands."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def version() -> str:
    from importlib.metadata import version as installed

    return installed("dray")
