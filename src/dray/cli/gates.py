"""`dray gates`: print the table of feature gates."""

from __future__ import annotations

import argparse

from dray.api.gates import GATES, FeatureGates, Gate, GateError
from dray.cli import Subparsers, fail
from dray.cli._output import columns


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("gates", help="list feature gates, their defaults and the gates they depend on")
    parser.add_argument(
        "--feature-gates", default="", metavar="A=true,…", help="show the list with these gates turned on or off"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        gates = FeatureGates.parse(args.feature_gates)
    except GateError as error:
        return fail("gates", error, 2)
    for line in lines(gates):
        print(line)
    return 0


def lines(gates: FeatureGates) -> list[str]:
    """Return the lines of the table, one per gate."""
    rows = [("NAME", "STAGE", "ON", "NEEDS", "MEANING"), *(_row(gate, gates) for gate in GATES)]
    return columns(rows)


def _row(gate: Gate, gates: FeatureGates) -> tuple[str, str, str, str, str]:
    meaning = f"{gate.meaning}; also {gate.alias}" if gate.alias else gate.meaning
    return gate.name, gate.stage, "yes" if gates.served(gate.name) else "no", ",".join(gate.needs) or "-", meaning
