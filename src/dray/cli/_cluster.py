"""What the commands that look at a running cluster share: which cluster, and as whom."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.client.http import Http


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", default="", help="how to reach the cluster ($KUBECONFIG, ~/.kube/config)")
    parser.add_argument("--context", default="", help="context of the kubeconfig")


def connect(args: argparse.Namespace) -> Http:
    """A client for the cluster; a context manager. Raises ConfigError."""
    from dray.client.config import load
    from dray.client.http import Http

    return Http(load(args.kubeconfig, args.context))
