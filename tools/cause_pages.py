#!/usr/bin/env python3
"""Write docs/causes.md, which describes every cause, from the types. With --check, say whether the page is current."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from dray.api.reasons.causes import CAUSES, base
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.conflicts import ShortAlternative
from dray.api.reasons.causes.node_rules import NoNodes
from dray.api.reasons.causes.undecided import UnknownCause
from dray.api.reasons.described import description_of
from dray.api.reasons.devices import (
    AmountLimit,
    DeviceStep,
    InputCode,
    InputProblem,
    LackingAmount,
    PoolCode,
    PoolProblem,
    StepCode,
    TimedOut,
    TimeoutCode,
)
from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.reasons.requested import ClaimAmount, HeldAmount, RequestedDevices
from dray.api.reasons.selector_faults import Place, SelectorCode, SelectorFault

PAGE = Path(__file__).parents[1] / "docs" / "causes.md"
INTRODUCTION = """# Causes

Every cause that `dray explain` tells, in alphabetical order; made from the types by `tools/cause_pages.py`. The code is what
`-o json` has in `cause.code`, beside the fields. `dray explain --schema` prints the same as a JSON schema. Texts may change in
any version, codes and fields do not without a line in the changelog. How a cause is found, and that suggestions are tried
before they are told, is on the page about [explain](visibility.md#explain).

Each text is an example, with names in capitals. Parts of it are left out where a field is empty.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(line for code in sorted(CAUSES) for line in _cause(code, CAUSES[code]))])


def _cause(code: str, kind: type[Cause]) -> Iterator[str]:
    described = description_of(kind)
    yield from (f"## {code}", "", described.summary, "")
    yield from (f"> {_example(kind).text}", "")
    hints = get_type_hints(kind)
    if described.fields:
        yield from ("| field | type | meaning |", "|---|---|---|")
        yield from (f"| `{name}` | {_type(hints[name])} | {meaning} |" for name, meaning in described.fields.items())
        yield ""
    if kind.HELPS:
        yield from ("What may help:", "")
        for helps in kind.HELPS:
            tag = helps.__struct_config__.tag
            yield f"- `{tag}`: {_placeholders(helps.TEXT)}"
        yield ""


def _placeholders(text: str) -> str:
    """A template with the names of its fields in capitals."""
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper().replace("_", "-"), text)


def _example(kind: type[Cause]) -> Cause:
    """A cause in which each text is the name of its field in capitals."""
    values = dict(OWN_EXAMPLES.get(kind.__struct_config__.tag, {}))
    for name, hint in get_type_hints(kind).items():
        if name in kind.__struct_fields__ and name not in values:
            of = [one for one in get_args(hint) if one is not type(None)] if type(None) in get_args(hint) else [hint]
            values[name] = _value(name, of[0])
    return kind(**values)


def _value(name: str, hint: Any) -> Any:
    capitals = name.upper().replace("_", "-")
    if hint is int:
        return NUMBERS[name]
    if hint is bool:
        return False
    if hint is str:
        return "ResourceClaimTemplate" if name == "other_kind" else capitals
    if hint == tuple[str, ...]:
        return (f"{capitals.removesuffix('S')}-1", f"{capitals.removesuffix('S')}-2")
    return next(one for of, one in EXAMPLES if of == hint)


NUMBERS = {
    "available": 3, "candidates": 8, "devices": 8, "existing": 1, "free": 4, "late": 2, "listed": 3, "matching": 8,
    "min_count": 4, "most": 2, "needed": 4, "nodes": 3, "placed": 2, "pods": 3, "pools": 3, "published": 8,
    "restarts": 5, "selector": 0, "tainted": 2, "taken": 5, "wanted": 3,
}  # fmt: skip
FAULT = SelectorFault(
    SelectorCode.VALUE_MISSING, Place("attributes", "D", "model"), part="model = h100", values=(("a100", 8),)
)
PROBLEM = InputProblem(InputCode.TOO_MANY_DEVICES, claim="CLAIM", number=40, limit=32)
WRONG_NAME = SelectorFault(SelectorCode.NAME_MISSING, FAULT.place, Place("attributes", "D", "MODEL"), devices=8)
OWN_EXAMPLES: dict[Any, dict[str, Any]] = {
    "CapacityTooLarge": {
        "lacking": (LackingAmount("DRIVER/POOL/DEVICE", "memory", "80Gi", "40Gi", limit=AmountLimit.TOTAL),),
        "held": (),
    },
    "ConstraintOfAll": {
        "problem": InputProblem(InputCode.CONSTRAINT_REFUSED, "CLAIM", "REQUEST", device="DRIVER/POOL/DEVICE")
    },
    "CountersExhausted": {
        "lacking": (LackingAmount("DRIVER/POOL/DEVICE", "slices", "4", "1", "COUNTER-SET"),),
        "held": (ClaimAmount("NAMESPACE/OTHER", HeldAmount("DRIVER/POOL", "slices", "7", "COUNTER-SET")),),
        "step": DeviceStep(StepCode.COUNTERS, 2),
    },
    "InvalidPool": {"problem": PoolProblem(PoolCode.DUPLICATE_DEVICE, device="DEVICE")},
    "NotAllFree": {"free": 3},
    "SelectorFails": {
        "problem": InputProblem(
            InputCode.SELECTOR_RUNTIME, "CLAIM", "REQUEST", device="DRIVER/POOL/DEVICE", detail="no such key: modle"
        ),
        "fault": None,
    },
    "TooFewDevices": {"step": DeviceStep(StepCode.SELECTOR, 2, number=0)},
    "UnknownAttribute": {"fault": WRONG_NAME},
    "Wrong": {"problem": InputProblem(InputCode.UNKNOWN_NODE, "CLAIM", "REQUEST", "NODE")},
}
AMOUNT = LackingAmount("DRIVER/POOL/DEVICE", "memory", "40Gi", "10Gi")
EXAMPLES: list[tuple[Any, Any]] = [
    (RequestedDevices, RequestedDevices("CLAIM", "REQUEST", "CLASS", 4)),
    (DeviceStep, DeviceStep(StepCode.CAPACITY, 2)),
    (SelectorFault, FAULT),
    (InputProblem, PROBLEM),
    (PoolProblem, PoolProblem(PoolCode.SLICES_MISSING, published=1, expected=(2,))),
    (TimedOut, TimedOut(TimeoutCode.SEARCH, "CLAIM", "REQUEST", 1, 2, 0)),
    (tuple[LackingAmount, ...], (AMOUNT,)),
    (tuple[ClaimAmount, ...], (ClaimAmount("NAMESPACE/OTHER", HeldAmount("DRIVER/POOL/DEVICE", "memory", "30Gi")),)),
    (tuple[tuple[NodeReason, int], ...], ((NodeReason(NodeCode.INSUFFICIENT, "cpu"), 2),)),
    (tuple[ShortAlternative, ...], (ShortAlternative("ALTERNATIVE-1", UnknownCause()),)),
    (base.AnyCause, NoNodes()),
]


def _type(hint: Any) -> str:
    """The type of a field in words that JSON has."""
    if hint is base.AnyCause:
        return "a cause"
    named = {str: "text", int: "number", bool: "true or false"}
    if hint in named:
        return named[hint]
    parts = [one for one in get_args(hint) if one not in (type(None), ...)]
    if getattr(hint, "__origin__", None) is tuple:
        of = _type(parts[0])
        if len(parts) > 1:
            return " and ".join(_type(part) for part in parts)
        return {"text": "texts", "number": "numbers"}.get(of, f"list: {of}")
    if parts and getattr(hint, "__origin__", None) is None and len(parts) == 1:
        return _type(parts[0])
    return f"`{hint.__name__}`"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == page() else "docs/causes.md is not current: run tools/cause_pages.py")
    PAGE.write_text(page())
