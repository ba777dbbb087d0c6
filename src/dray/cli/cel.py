"""`dray cel`: evaluate device selectors without a cluster: one expression, or a file of cases (`dray.cel.cases`)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dray.cli import InputError, Subparsers, fail
from dray.files import YamlError, yaml_document

if TYPE_CHECKING:
    from dray.cel import DeviceView


MATCHED, DIFFERENT, WRONG_INPUT = 0, 1, 2


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cel",
        help="evaluate a device selector offline",
        description="Evaluate a CEL device selector against a device, or a file of cases. Exits 0 if the device matches "
        "and 1 if not. With --driver alone, the device has no attributes and no capacity; without a device, the "
        "expression is only checked.",
    )
    parser.add_argument("expression", nargs="?", metavar="EXPR", help="selector expression")
    parser.add_argument(
        "--cases", metavar="FILE", help="file with one JSON object per line: id, expr, driver, attributes, capacity"
    )
    parser.add_argument("--device", metavar="FILE", help="device as JSON or YAML; -: standard input")
    parser.add_argument("--driver", default="", help="driver of the device, if the device file does not name it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.cel.cases import CaseError

    try:
        if args.cases:
            return _cases(args.cases)
        if args.expression is None:
            raise InputError("either an expression or --cases is needed")
        return _expression(args.expression, _device(args.device, args.driver))
    except (CaseError, InputError, OSError) as error:
        return fail("cel", error, WRONG_INPUT)


def _cases(path: str) -> int:
    """Print the result of each case in a file. Returns the exit status.

    The status is 0, whatever the results are.
    """
    from dray.cel.cases import answer_case

    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if line.strip():
            print(msgspec.json.encode(answer_case(line, f"{path}:{number}")).decode())
    return MATCHED


def _expression(expression: str, device: DeviceView | None) -> int:
    """Evaluate or check one expression and print the result. Returns the exit status.

    The status is 0 for a match or without a device, 1 for no match or an evaluation error. Raises InputError if the
    expression is invalid.
    """
    from dray.cel import check_selector, compile_selector

    refusal = check_selector(expression)
    if refusal is not None:
        raise InputError(f"{refusal.reason}: {refusal.detail}")
    selector = compile_selector(expression)
    if device is None:
        print(f"valid, not evaluated: --device or --driver says of which device; costs at most {selector.max_cost}")
        return MATCHED
    outcome = selector.evaluate(device)
    if outcome.error is not None:
        print(f"error: {outcome.error} (cost {outcome.cost})")
        return DIFFERENT
    print(f"{'match' if outcome.match else 'no match'} (cost {outcome.cost})")
    return MATCHED if outcome.match else DIFFERENT


def _device(path: str | None, driver: str) -> DeviceView | None:
    """Return the device in a file, or a device with only a driver; None without either.

    `path` is a file, or "-" for standard input. Raises InputError for invalid YAML, CaseError for an invalid device,
    OSError if the file cannot be read.
    """
    from dray.cel.cases import read_device

    if path is None:
        return read_device({"driver": driver}, "--driver") if driver else None
    text = sys.stdin.read() if path == "-" else Path(path).read_text()
    try:
        tree = yaml_document(text)
    except YamlError as error:
        raise InputError(f"{path}: {error}") from error
    return read_device(tree | {"driver": driver} if driver and isinstance(tree, dict) else tree, path)
