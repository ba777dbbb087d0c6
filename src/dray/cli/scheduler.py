"""`dray scheduler`: run only the scheduler, with any Kubernetes API server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, _shadow, fail
from dray.cli._component import add_options, lease_of, run_part
from dray.files import reason

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.client import LeaseSettings
    from dray.client.http import Http
    from dray.client.readiness import Readiness
    from dray.core.configuration import Configuration


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("scheduler", help="run only the scheduler")
    parser.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration to use")
    parser.add_argument(
        "--allocates-from",
        action="append",
        default=[],
        metavar="DRIVER[/POOL]",
        help="allocate only devices of this driver or pool, because another scheduler allocates the rest; repeatable "
        "(default: all devices)",
    )
    add_options(parser, port=10259)
    _shadow.add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.assembly.configuration import read_configuration
    from dray.core.configuration import ConfigurationError

    try:
        configuration = read_configuration(args.config)
    except (ConfigurationError, OSError) as error:
        return fail("scheduler", f"{args.config}: {reason(error)}", 2)
    for warning in configuration.warnings:
        print(f"dray scheduler: {args.config}: {warning}", file=sys.stderr)

    if wrong := _shadow.misused(args):
        return fail("scheduler", wrong, 2)
    try:
        lease = _take_over(configuration, args)
    except ValueError as error:
        return fail("scheduler", f"{args.config}: leaderElection: {error}")

    if args.shadow:
        return _shadow.run_shadow(args, configuration)

    async def work(client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        from dray.client.cluster_gates import holds_devices
        from dray.scheduler import Scheduler

        scheduler = Scheduler(
            client,
            gates,
            configuration,
            readiness=readiness,
            holds_devices=await holds_devices(client),
            allocates_from=frozenset(args.allocates_from),
        )
        await scheduler.run()

    return run_part("scheduler", args, work, lease=lease)


def _take_over(configuration: Configuration, args: argparse.Namespace) -> LeaseSettings | None:
    """Complete the options with the connection and leader election in the configuration file.

    Returns the lease settings. Options take precedence over the file. Returns None if leader election is disabled.
    """
    from dray.core.configuration import LEASE_DURATIONS

    connection, election = configuration.connection, configuration.election
    args.kubeconfig = args.kubeconfig or connection.kubeconfig or ""
    args.kube_api_qps = connection.qps if args.kube_api_qps is None else args.kube_api_qps
    args.kube_api_burst = connection.burst if args.kube_api_burst is None else args.kube_api_burst
    args.no_leader_elect = args.no_leader_elect or election.enabled is False
    args.lease_name = args.lease_name or election.name
    args.lease_namespace = args.lease_namespace or election.namespace
    names = dict(zip(LEASE_DURATIONS, ("duration", "renew_deadline", "retry_period"), strict=True))
    return lease_of("scheduler", args, **{names[name]: value for name, value in election.durations.items()})
