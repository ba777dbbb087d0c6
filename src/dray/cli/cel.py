"""`dray cel`: evaluate device selectors without a cluster, one expression or a file of recorded cases.

A case is a JSON object a line with `id`, `expr` and a device (`driver`, `attributes`, `capacity`,
`allowMultipleAllocations`); the answer is {"id", "match"|"runtimeError"|"compileError", "maxCost", "cost"}.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dray.cli import InputError, Subparsers, fail

if TYPE_CHECKING:
    from dray.cel import DeviceView


MATCHED, DIFFERENT, WRONG_INPUT = 0, 1, 2


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cel",
        help="evaluate device selectors offline",
        description="Evaluate a CEL device selector against a device, or a file of cases. "
        "With an expression, exits 0 if the device matches and 1 if not.",
    )
    parser.add_argument("expression", nargs="?", metavar="EXPR", help="the selector")
    parser.add_argument(
        "--cases", metavar="FILE", help="one JSON object a line: id, expr, driver, attributes, capacity"
    )
    parser.add_argument("--device", metavar="FILE", help="a device as JSON or YAML; - for stdin")
    parser.add_argument("--driver", default="", help="the driver of the device, if its file does not say it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        if args.cases:
            return _cases(args.cases)
        if args.expression is None:
            raise InputError("either an expression or --cases is needed")
        return _expression(args.expression, args.device, args.driver)
    except (InputError, OSError) as error:
        return fail("cel", error, WRONG_INPUT)


def _cases(path: str) -> int:
    from dray.cel import compile_selector

    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        case = _object(line, place)
        if not isinstance(case.get("expr"), str):
            raise InputError(f"{place}: expr: expected a string")
        selector = compile_selector(case["expr"])
        answer: dict[str, Any] = {"id": case.get("id")}
        if selector.error is not None:
            answer |= {"compileError": str(selector.error), "maxCost": selector.max_cost}
        else:
            outcome = selector.evaluate(_device(case, place))
            answer |= {"match": outcome.match} if outcome.error is None else {"runtimeError": outcome.error}
            answer |= {"maxCost": selector.max_cost, "cost": outcome.cost}
        print(msgspec.json.encode(answer).decode())
    return MATCHED


def _expression(expression: str, path: str | None, driver: str) -> int:
    from dray.cel import check_selector, compile_selector

    refusal = check_selector(expression)
    if refusal is not None:
        raise InputError(f"{refusal.reason}: {refusal.detail}")
    selector = compile_selector(expression)
    if path is None:
        print(f"a good selector; costs at most {selector.max_cost}")
        return MATCHED
    outcome = selector.evaluate(_device(_load(path) | ({"driver": driver} if driver else {}), path))
    if outcome.error is not None:
        print(f"error: {outcome.error} (cost {outcome.cost})")
        return DIFFERENT
    print(f"{'match' if outcome.match else 'no match'} (cost {outcome.cost})")
    return MATCHED if outcome.match else DIFFERENT


def _load(path: str) -> dict[str, Any]:
    import yaml

    text = sys.stdin.read() if path == "-" else Path(path).read_text()
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a device as an object")
    return tree


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error


def _device(tree: dict[str, Any], place: str) -> DeviceView:
    from dray.api.types.resource import DeviceAttribute, DeviceCapacity
    from dray.cel import DeviceView

    try:
        return DeviceView(
            msgspec.convert(tree.get("driver", ""), str),
            msgspec.convert(tree.get("attributes", {}), dict[str, DeviceAttribute]),
            msgspec.convert(tree.get("capacity", {}), dict[str, DeviceCapacity]),
            msgspec.convert(tree.get("allowMultipleAllocations"), bool | None),
        )
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {error}") from error
