"""`dray controller-manager`: run only the controllers, with any Kubernetes API server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail, problem
from dray.cli._component import add_options, lease_of, run_part
from dray.files import read_text

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.client.http import Http
    from dray.client.readiness import Readiness


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("controller-manager", help="run only the controllers")
    parser.add_argument(
        "--controllers",
        default="*",
        metavar="NAME,-NAME,…",
        help="controllers to run; *: all, -NAME: not this one (default: %(default)s)",
    )
    parser.add_argument(
        "--root-ca-file", type=Path, metavar="FILE", help="CA certificate to publish in every namespace"
    )
    parser.add_argument(
        "--volumes-dir",
        type=Path,
        metavar="DIR",
        help="create volumes of the default storage class below this directory; nodes must see it at the same path",
    )
    add_options(parser, port=10257)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.gates import FeatureGates
    from dray.controllers.registry import UnknownController, chosen

    try:
        chosen(args.controllers, FeatureGates())
        root_ca = read_text(args.root_ca_file) if args.root_ca_file else ""
    except UnknownController as error:
        return fail("controller-manager", error)
    except (OSError, UnicodeDecodeError) as error:
        return fail("controller-manager", f"--root-ca-file: {problem(error)}", 2)

    async def work(client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        from dray.client.http import Http
        from dray.controllers import ControllerManager

        manager = ControllerManager(
            client,
            gates=gates,
            controllers=args.controllers,
            root_ca=root_ca,
            accounts=lambda _: Http(client.config, fence=client.fence),
            volumes=str(args.volumes_dir.resolve()) if args.volumes_dir else "",
            readiness=readiness,
        )
        await manager.run()

    return run_part("controller-manager", args, work, lease=lease_of("controller-manager", args))
