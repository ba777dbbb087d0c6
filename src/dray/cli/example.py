"""`dray example`: write example files, which are part of the package, into a directory."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dray.cli import Subparsers, fail

EXAMPLES = {
    "tour": "a pod with a GPU, a claim with alternatives, and a claim that does not fit",
    "workload": "a Deployment, a Job and pods that share a device",
    "driver": "a complete DRA driver in under forty lines, and a pod that uses it",
    "daemonset": "a driver as it is shipped: DaemonSet, RBAC, policy and DeviceClass, and a pod that uses it",
    "simulation": "a recorded cluster, workloads and a trace, for `dray docs simulation`",
    "autoscaling": "node groups and pods that wait for nodes, for `dray docs autoscaling`",
    "policies": "admission policies and roles for drivers and for users of ResourcePoolStatusRequests",
}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "example",
        help="write the files of an example into a directory",
        description="\n".join(f"  {name:11} {what}" for name, what in EXAMPLES.items()),
    )
    parser.add_argument("name", choices=EXAMPLES, metavar="NAME", help=", ".join(EXAMPLES))
    parser.add_argument(
        "directory", nargs="?", type=Path, metavar="DIR", help="directory to write to (default: ./NAME)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    directory = args.directory or Path(args.name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source in contents(args.name):
            target = directory / source.name
            if target.exists() and target.read_bytes() != source.read_bytes():
                print(f"{target} is there already and differs; it stays as it is", file=sys.stderr)
                continue
            target.write_bytes(source.read_bytes())
            print(target)
    except OSError as error:
        return fail("example", error)
    return 0


def contents(name: str) -> list[Traversable]:
    """Return the files of an example, sorted by name."""
    found = (files("dray") / "examples" / name).iterdir()
    return sorted((one for one in found if one.name.endswith((".yaml", ".py", ".csv"))), key=lambda one: one.name)
