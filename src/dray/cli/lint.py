"""`dray lint`: check manifests, offline or against the devices of a cluster.

Exits with 1 if there are errors. Files are not changed; a corrected manifest is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.quoting import visible
from dray.cli import GATES_HELP, Subparsers, fail
from dray.cli._cluster import add_options, connect
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.inspect.findings import Finding
    from dray.inspect.snapshot import Snapshot
    from dray.recordings.manifests import DocumentPlace


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "lint",
        help="find mistakes in manifests before a cluster rejects them",
        description="Check manifests: schema, validation rules, selectors, alternatives, constraints, names, old API versions.",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="PATH",
        help="file or directory; -: standard input; repeatable",
    )
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--cluster", action="store_true", help="also check classes, claims and devices against the cluster"
    )
    against.add_argument(
        "--recording",
        action="append",
        metavar="FILE",
        help="also check them against a recording, or the output of `kubectl get resourceslices,… -o yaml`; repeatable",
    )
    parser.add_argument(
        "-n", "--namespace", default="", help="namespace of claims and templates (default: that of the context)"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--strict", action="store_true", help="exit status 1 also for warnings")
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.api.gates import FeatureGates, GateError
    from dray.api.manifests import ManifestError
    from dray.client.config import ConfigError
    from dray.inspect.linting import lint
    from dray.recordings.manifests import read_trees

    try:
        gates = FeatureGates.parse(args.feature_gates)
        trees = {str(place): (place, tree) for place, tree in read_trees(args.filename)}
        if not trees:
            raise ManifestError(f"{', '.join(args.filename)}: there is nothing to check")
        known = _known(args, gates)
        findings = lint([(name, tree) for name, (_, tree) in trees.items()], gates, known)
        findings = [_with_line(finding, trees[finding.place][0]) for finding in findings]
    except (ApiError, ConfigError, GateError, ManifestError, OSError) as error:
        return fail("lint", error, 2)
    unread = known.blind_spots() if known is not None else []
    if unread:
        print(f"dray lint: you may not list {', '.join(unread)}; what depends on them is not checked", file=sys.stderr)
    print(_shown(findings, args.output))
    bad = ("error", "warning") if args.strict else ("error",)
    return int(any(finding.level in bad for finding in findings))


def _with_line(finding: Finding, place: DocumentPlace) -> Finding:
    """Return the finding with the line number of its field in the file."""
    from msgspec.structs import replace

    from dray.inspect.lines import line_of

    return replace(finding, line=line_of(place.content, place.number, place.item, finding.field))


def _known(args: argparse.Namespace, gates: FeatureGates) -> Snapshot | None:
    """Return the objects to check against: of a cluster or recording, or None.

    None if neither a cluster nor a recording is given.
    """
    if args.cluster:
        return asyncio.run(_fetched(args))
    if args.recording:
        from dray.inspect.snapshot import Snapshot
        from dray.recordings.manifests import read_manifests

        return Snapshot.of(*read_manifests(args.recording, gates))
    return None


async def _fetched(args: argparse.Namespace) -> Snapshot:
    """Return the objects of the cluster that manifests are checked against."""
    from dray.inspect.reading import fetch

    async with connect(args) as client:
        return await fetch(client, args.namespace or client.config.namespace)


def _shown(findings: Sequence[Finding], output: str) -> str:
    """Return the findings as text or JSON."""
    if output == "json":
        return data(findings, output)
    if not findings:
        return "nothing to complain about"
    return visible("\n".join(line for finding in findings for line in _lines(finding)))


def _lines(finding: Finding) -> list[str]:
    """Return the lines of one finding, with the corrected manifest if there is one."""
    field = f"{finding.field}: " if finding.field else ""
    line = f", line {finding.line}" if finding.line else ""
    lines = [f"{finding.place}{line}: {finding.level}: {field}{finding.text}"]
    if finding.rewritten is not None:
        import yaml

        text = yaml.safe_dump(finding.rewritten, sort_keys=False, default_flow_style=False)
        lines += [f"    {line}" for line in text.splitlines()]
    return lines
