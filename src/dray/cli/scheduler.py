"""`dray scheduler`: the scheduler alone, for any Kubernetes API server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail
from dray.cli._component import add_options, run_component
from dray.files import read_regular

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.client import Client
    from dray.core.configuration import Configuration


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("scheduler", help="run the scheduler alone")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration")
    add_options(parser, port=10259)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.core.configuration import ConfigurationError

    try:
        configuration = read_configuration(args.config)
    except (ConfigurationError, OSError) as error:
        return fail("scheduler", f"{args.config}: {error}")
    for warning in configuration.warnings:
        print(f"dray scheduler: {args.config}: {warning}", file=sys.stderr)

    async def work(client: Client, gates: FeatureGates) -> None:
        from dray.scheduler import Scheduler

        await Scheduler(client, gates, configuration).run()

    return run_component("scheduler", args, work)


def read_configuration(path: Path | None) -> Configuration:
    """The configuration in a file, or the default."""
    from dray.core.configuration import Configuration, ConfigurationError, read

    if path is None:
        return Configuration()
    import yaml

    try:
        return read(yaml.safe_load(read_regular(path)))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from error
