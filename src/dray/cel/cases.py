"""Test cases of selectors as JSON: one case per line, and its result.

A case has `id`, `expr` and a device (`driver`, `attributes`, `capacity`, `allowMultipleAllocations`). The result
is {"id", "match"|"runtimeError"|"compileError", "maxCost", "cost"}.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.resource import DeviceAttribute, DeviceCapacity
from dray.cel.device import DeviceView
from dray.cel.selector import compile_selector


class CaseError(ValueError):
    """The text is not a valid case or device. The message starts with the place and gives the reason."""


def answer_case(line: str, place: str) -> dict[str, Any]:
    """Evaluate the case in one JSON line. Returns its result as a JSON object.

    Raises CaseError for an invalid line; `place` is the position named in that error.
    """
    try:
        case = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CaseError(f"{place}: {error}") from error
    if not isinstance(case.get("expr"), str):
        raise CaseError(f"{place}: expr: expected a string")
    selector = compile_selector(case["expr"])
    answer: dict[str, Any] = {"id": case.get("id")}
    if selector.error is not None:
        return answer | {"compileError": str(selector.error), "maxCost": selector.max_cost}
    outcome = selector.evaluate(read_device(case, place))
    answer |= {"match": outcome.match} if outcome.error is None else {"runtimeError": outcome.error}
    return answer | {"maxCost": selector.max_cost, "cost": outcome.cost}


def read_device(tree: Any, place: str) -> DeviceView:
    """Convert a decoded JSON object to a device. Raises CaseError, which names `place`, if it is invalid."""
    if not isinstance(tree, dict):
        raise CaseError(f"{place}: expected a device as an object")
    try:
        return DeviceView(
            msgspec.convert(tree.get("driver", ""), str),
            msgspec.convert(tree.get("attributes", {}), dict[str, DeviceAttribute]),
            msgspec.convert(tree.get("capacity", {}), dict[str, DeviceCapacity]),
            msgspec.convert(tree.get("allowMultipleAllocations"), bool | None),
        )
    except msgspec.ValidationError as error:
        raise CaseError(f"{place}: {error}") from error
