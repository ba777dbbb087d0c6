"""`dray allocator test`: compare another allocator with Kubernetes; `dray allocator cases`: write the test cases."""

from __future__ import annotations

import argparse
from pathlib import Path

from dray.cli import Subparsers, fail
from dray.cli._output import data


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("allocator", help="run a conformance test for allocators in any language")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    test = actions.add_parser(
        "test",
        help="compare an allocator with recorded answers of Kubernetes",
        usage="dray allocator test [options] -- COMMAND …",
        description="Send COMMAND one JSON question per line and compare its answers with those of Kubernetes. Exit status 1 "
        "if an answer is wrong. `dray docs allocatorkit` describes questions and answers.",
    )
    test.add_argument("command", nargs="*", metavar="COMMAND", help="allocator to test, with its arguments")
    test.add_argument(
        "--answers",
        type=Path,
        metavar="FILE",
        help="compare recorded answers from FILE, one per line, instead of running COMMAND",
    )
    test.add_argument(
        "--exact", action="store_true", help="also fail for valid answers that differ from those of Kubernetes"
    )
    test.add_argument("--without", default="", metavar="F,…", help="skip cases that need one of these features")
    test.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time limit per answer (default: %(default)g)"
    )
    test.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format of the report (default: %(default)s)"
    )
    test.set_defaults(run=run_test)
    cases = actions.add_parser("cases", help="write the questions and Kubernetes' answers into a directory")
    cases.add_argument("directory", type=Path, metavar="DIR", help="directory to write to")
    cases.set_defaults(run=run_cases)


def run_test(args: argparse.Namespace) -> int:
    """Compare an allocator's answers with those of Kubernetes and print the report. Returns the exit status.

    The status is 0 if the test is passed, 1 if not, 2 if it cannot run.
    """
    from dray.allocatorkit import ProgramError, ask_program, cases, read_answers
    from dray.allocatorkit.cases import FEATURES

    without = frozenset(filter(None, args.without.split(",")))
    if unknown := without.difference(FEATURES):
        return fail("allocator test", f"there is no feature {min(unknown)}; there are {', '.join(FEATURES)}", 2)
    if bool(args.command) == bool(args.answers):
        return fail("allocator test", "expected -- COMMAND, or --answers FILE", 2)
    try:
        if args.answers:
            report = read_answers(args.answers.read_bytes().splitlines(), cases(without))
        else:
            report = ask_program(args.command, cases(without), args.timeout)
    except (ProgramError, OSError) as error:
        return fail("allocator test", error, 2)
    print(data(report, "json") if args.output == "json" else "\n".join(report.lines()))
    return 0 if report.passed(exact=args.exact) else 1


def run_cases(args: argparse.Namespace) -> int:
    """Write the test cases into a directory. Returns the exit status.

    The status is 0, or 2 if the files cannot be written.
    """
    from dray.allocatorkit.cases import ALLOCATIONS, SELECTORS, lines

    try:
        args.directory.mkdir(parents=True, exist_ok=True)
        for name in (ALLOCATIONS, SELECTORS):
            path = args.directory / name.removesuffix(".gz")
            path.write_bytes(b"".join(line + b"\n" for line in lines(name)))
            print(path)
    except OSError as error:
        return fail("allocator cases", error, 2)
    return 0
