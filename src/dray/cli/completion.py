"""`dray completion`: print a shell script that completes dray's command lines."""

from __future__ import annotations

import argparse

from dray.cli import Subparsers

SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("completion", help="print the completion script for a shell")
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["dray", "kubectl-dra"], shell=args.shell))
    return 0
