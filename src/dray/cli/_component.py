"""Options, logging and error messages that the commands of single components share."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from dray.api.verbosity import WHY
from dray.cli import GATES_HELP, fail
from dray.logs import FORMATS, JsonLines, TextLines

if TYPE_CHECKING:
    from dray.assembly.component import Probe, RunComponent
    from dray.client import LeaseSettings

# -v as in Kubernetes' components: 0 to 3 log events, 4 decisions, 5 and more the reasons.
_LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO, 3: logging.INFO, 4: logging.DEBUG}


def add_options(parser: argparse.ArgumentParser, port: int, *, elects: bool = True) -> None:
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig file of the API server (default: $KUBECONFIG, else ~/.kube/config)"
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig file (default: its current context)")
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)
    parser.add_argument(
        "--port",
        type=int,
        default=port,
        help="port for /metrics, /healthz and /readyz; 0: any free port, -1: none (default: %(default)s)",
    )
    parser.add_argument(
        "--bind-address",
        default="127.0.0.1",
        metavar="IP",
        help="address for /metrics, /healthz and /readyz; use 0.0.0.0 in a pod, for its probes (default: %(default)s)",
    )
    parser.add_argument(
        "--kube-api-qps",
        type=float,
        metavar="N",
        help="maximum requests per second to the API server; 0: no limit (default: 0)",
    )
    parser.add_argument(
        "--kube-api-burst",
        type=int,
        metavar="N",
        help="requests that may exceed --kube-api-qps in a burst (default: 10)",
    )
    if elects:
        parser.add_argument("--no-leader-elect", action="store_true", help="start without acquiring the lease")
        parser.add_argument(
            "--lease-name", metavar="NAME", help="name of the lease for leader election (default: dray-COMMAND)"
        )
        parser.add_argument("--lease-namespace", metavar="NAME", help="namespace of the lease (default: kube-system)")
    else:
        parser.set_defaults(no_leader_elect=True)
    add_verbosity(parser)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v",
        "--v",
        type=int,
        default=0,
        metavar="N",
        help="log level; 4: decisions, 5: also the result of each scheduling rule for each node (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        default="text",
        choices=FORMATS,
        help="format of log lines on standard error (default: %(default)s)",
    )


def set_up_logging(verbosity: int, form: str = "text") -> None:
    """Configure logging for a -v level and a format (text or json)."""
    level = _LEVELS.get(verbosity, WHY if verbosity >= 5 else logging.WARNING)
    logging.addLevelName(WHY, "WHY")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("dray").setLevel(level)


def lease_of(name: str, args: argparse.Namespace, **durations: float) -> LeaseSettings | None:
    """Return the settings of leader election in the options, or None if it is disabled.

    `name` is that of the component; `durations` are in seconds. Raises ValueError if the durations are invalid.
    """
    from dray.client import LeaseSettings

    if args.no_leader_elect:
        return None
    return LeaseSettings(args.lease_name or f"dray-{name}", args.lease_namespace or "kube-system", **durations)


def run_part(
    name: str,
    args: argparse.Namespace,
    run: RunComponent,
    probe: Probe | None = None,
    *,
    lease: LeaseSettings | None = None,
    read_only: bool = False,
) -> int:
    """Run one component with the API server until a signal. Returns the exit status.

    This is 0 after a signal, else 1, or 2 for unusable input. `probe` tests whether the server answers.
    """
    from dray.api.gates import GateError
    from dray.assembly.component import ComponentError, ComponentOptions, lists_pods, run_component
    from dray.client.config import ConfigError

    set_up_logging(args.v, args.log_format)
    options = ComponentOptions(
        args.kubeconfig,
        args.context,
        args.feature_gates,
        args.port,
        args.bind_address,
        args.kube_api_qps,
        args.kube_api_burst,
        lease,
        read_only,
    )
    try:
        run_component(name, options, run, probe or lists_pods)
    except (ComponentError, ConfigError, GateError) as error:
        return fail(name, error)
    return 0
