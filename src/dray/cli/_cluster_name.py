"""Options that select a cluster of the user."""

from __future__ import annotations

import argparse
from pathlib import Path

from dray.assembly import clusters


def add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="", help="name of the cluster, which is stored in ~/.local/share/dray/NAME")
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help=f"directory for keys, kubeconfig and database (default: {clusters.DEFAULT_DIR})",
    )


def add_existing(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands for an existing cluster, whose name may also be an argument."""
    parser.add_argument("cluster", nargs="?", default="", metavar="NAME", help="name of the cluster, like --name NAME")
    add_cluster(parser)


def directory_of(args: argparse.Namespace) -> Path:
    """Return the directory that --name or --dir selects. Raises ClusterError."""
    return clusters.directory_of(args.name, args.dir)


def existing(args: argparse.Namespace) -> clusters.ClusterDirectory:
    """Return the existing cluster that the options select.

    Raises ClusterError if two different clusters are named or the cluster does not exist.
    """
    if args.cluster and args.name not in ("", args.cluster):
        raise clusters.ClusterError(f"{args.cluster} and --name {args.name} are two clusters: give one of them")
    args.name = args.name or args.cluster
    return clusters.existing(args.name, args.dir)
