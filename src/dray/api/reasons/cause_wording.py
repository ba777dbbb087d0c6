"""Causes and suggestions into words, with the templates of `wording`.

Each function takes one struct and gives one clause or sentence. Left out: layout on a screen (`dray.inspect.layout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec.structs import asdict

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes import Cause, CauseCode, HeldAmount, Place, RequestedDevices, SelectorCode, SelectorFault
from dray.api.reasons.devices import LackingAmount
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Suggestion, SuggestionCode
from dray.api.reasons.wording import (
    Phrase,
    condition,
    devices,
    input_problem,
    node_reason,
    pool_problem,
    say,
    timed_out,
)

_NAMED = 3  # nodes that a sentence lists
_KNOWN = 8  # names that a sentence lists
_VALUES = 4  # values that a sentence lists
_KINDS = {"attributes": CausePhrase.ATTRIBUTE, "capacity": CausePhrase.CAPACITY}
_AFTER_COLON = frozenset({CauseCode.DEVICES_FAILED, CauseCode.FINISHED})
_SHORT = frozenset(
    {
        CauseCode.TOO_FEW_DEVICES,
        CauseCode.CAPACITY_TOO_LARGE,
        CauseCode.CAPACITY_EXHAUSTED,
        CauseCode.COUNTERS_EXHAUSTED,
    }
)
_ON_ONE_NODE = _SHORT | {CauseCode.FRAGMENTED}


def cause(found: Cause) -> str:
    """The cause, with what is asked for before it."""
    detail = cause_detail(found)
    if found.asked is None or found.every:
        return detail
    needs = CausePhrase.NEEDS_ON_ONE_NODE if found.code in _ON_ONE_NODE else CausePhrase.NEEDS
    need = say(needs, asked=asked(found.asked), devices=devices(found.asked.needed))
    both = CausePhrase.NEED_THEN_CAUSE if found.code is CauseCode.FRAGMENTED else CausePhrase.NEED_AND_CAUSE
    return say(both, need=need, cause=detail)


def cause_detail(found: Cause) -> str:
    """The cause without what is asked for."""
    words = {
        "meant": say(CausePhrase.MEANT, meant=found.meant) if found.meant else "",
        "other": say(CausePhrase.OF_OTHER_KIND, kind=found.wanted) if found.wanted else "",
        "message": f": {found.message}" if found.message and found.code in _AFTER_COLON else found.message,
        "names": _names(found),
        "found": _found(found),
        "used": _used(found),
        "needed": found.asked.needed if found.asked is not None else 0,
        "whose": say(CausePhrase.FOR_GROUP if found.group else CausePhrase.FOR_POD, group=found.group),
        "asked": _askers(found),
        "needs": say(CausePhrase.SEVERAL_NEED if len(found.names) > 1 else CausePhrase.ONE_NEEDS),
        "how": _how(found),
        "step": condition(found.step) if found.step is not None else "",
        "lacking": _lacks(found) if found.lacking else "",
        "selector": _selector(found),
        "input": input_problem(found.input) if found.input is not None else "",
        "pool": pool_problem(found.pool) if found.pool is not None else "",
        "progress": timed_out(found.progress) if found.progress is not None else "",
        "refused": refusals(found.refused) or say(CausePhrase.OTHER_CLAIMS),
        "alternatives": "; ".join(
            say(CausePhrase.ALTERNATIVE, name=one.request, why=cause_detail(one)) for one in found.alternatives
        ),
        "behind": cause(found.behind) if found.behind is not None else "",
    }
    return say(_template(found), **asdict(found) | words)


def _template(found: Cause) -> StrEnum:
    """Some causes read better in other words when a number or a name is missing."""
    match found.code:
        case CauseCode.CONFLICT | CauseCode.NO_COMBINATION if len(found.names) == 1:
            return CausePhrase.WITHIN_CONSTRAINTS
        case CauseCode.ALL_TAKEN if found.every:
            return CausePhrase.EVERY_TAKEN
        case CauseCode.NODE_RULES if not found.names:
            return CausePhrase.NO_NODE_TAKES
        case CauseCode.TOO_FEW_DEVICES if found.step is None:
            return CausePhrase.NO_MORE_THAN
        case CauseCode.SCHEDULER_SAYS if not found.message:
            return CausePhrase.NOTHING_SAID
        case CauseCode.TIMED_OUT if not found.of:
            return CausePhrase.WHY_LATE
        case CauseCode.ALL_RUN if found.of < 2:
            return CausePhrase.ONE_RUNS if found.of else CausePhrase.NONE_WANTED
        case _:
            return found.code


def asked(what: RequestedDevices) -> str:
    """`request r of claim c`."""
    if what.resource:
        return say(CausePhrase.EXTENDED_RESOURCE, resource=what.resource, request=what.request)
    return say(CausePhrase.REQUEST, request=what.request, claim=what.claim)


def refusals(counted: Iterable[tuple[NodeReason, int]]) -> str:
    """`2 Insufficient cpu, 1 node(s) were unschedulable`."""
    counts: dict[str, int] = {}
    for reason, number in counted:
        text = node_reason(reason)
        counts[text] = counts.get(text, 0) + number
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(say(Phrase.SOME_NODES, count=count, why=text) for text, count in ordered)


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return say(CausePhrase.AND_MORE, names=shown, more=len(names) - most) if len(names) > most else shown


def _names(found: Cause) -> str:
    match found.code:
        case CauseCode.CONFLICT | CauseCode.CLAIMS_APART:
            return say(CausePhrase.AND_NAME).join(found.names)
        case CauseCode.ALLOCATED:
            return ", ".join(found.names) or say(CausePhrase.NO_DEVICE)
        case CauseCode.TAINTED:
            return ", ".join(found.names[:_NAMED])
        case _:
            return listed(found.names)


def _found(found: Cause) -> str:
    match found.code:
        case code if code in _SHORT and found.step is not None:
            phrase = CausePhrase.AT_MOST if found.found else CausePhrase.NONE_ON_ONE
            return say(phrase, found=found.found, node=found.node)
        case CauseCode.ALL_TAKEN if found.every:
            return str(found.found)
        case CauseCode.ALL_TAKEN if found.found == found.of:
            return say(CausePhrase.ALL_OF, of=found.of)
        case CauseCode.ALL_TAKEN:
            return say(CausePhrase.SOME_OF, found=found.found, of=found.of)
        case _:
            return str(found.found)


def _used(found: Cause) -> str:
    """Who uses something, what is used of a quota, how many are free, which rules taint."""
    match found.code:
        case CauseCode.ALL_TAKEN:
            return _not_taken(found)
        case CauseCode.TAINTED if found.used:
            return say(CausePhrase.BY_RULES, names=found.used)
        case CauseCode.ALLOCATED:
            return say(CausePhrase.USED_BY, names=found.used) if found.used else say(CausePhrase.USED_BY_NOBODY)
        case CauseCode.CLAIM_DELETING | CauseCode.DELETING if found.used:
            return f", {say(CausePhrase.USED_BY, names=found.used)}"
        case _:
            return found.used


def _not_taken(found: Cause) -> str:
    """What becomes of the devices that are not taken: so many are free, so many are tainted."""
    tainted = int(found.limit or 0)
    free = found.of - found.found - tainted
    rules = say(CausePhrase.BY_RULES, names=found.used) if found.used else ""
    names = ", ".join(found.names[:_NAMED])
    told = say(CausePhrase.TAINTED_TOO, number=tainted, names=names, rules=rules) if tainted else ""
    return f"{say(CausePhrase.FREE_LEFT, free=free) if free else ''}{told}"


def _askers(found: Cause) -> str:
    if found.asked is not None:
        return asked(found.asked)
    names = ", ".join(found.names)
    if len(found.names) > 1:
        return say(CausePhrase.REQUESTS, requests=names, claim=found.claim)
    return say(CausePhrase.REQUEST, request=names, claim=found.claim)


def _how(found: Cause) -> str:
    if found.code is CauseCode.CONFLICT:
        phrase = CausePhrase.COMPETE if found.found < found.of else CausePhrase.APART
        return say(phrase, of=found.of, found=found.found)
    phrase = CausePhrase.DIFFER if found.distinct else CausePhrase.SHARE
    return say(phrase, subject=found.subject, found=found.found, node=found.node)


# Amounts


def _lacks(found: Cause) -> str:
    """What one device lacks: `gpu-1 needs 1 of slice-5 of counter set gpu, 0 left (default/nb-0 holds 1)`."""
    device = found.lacking[0].device.rpartition("/")[2]
    amounts = say(CausePhrase.AND_AMOUNT).join(_lacking(amount, found.held) for amount in found.lacking)
    return say(CausePhrase.LACKS, device=device, amounts=amounts)


def _lacking(lacking: LackingAmount, held: Iterable[tuple[str, HeldAmount]]) -> str:
    by = [
        say(CausePhrase.HOLDS_AMOUNT, claim=claim, amount=one.amount)
        for claim, one in held
        if (one.place, one.counter_set, one.name) == (lacking.place, lacking.counter_set, lacking.name)
    ]
    limit = say(lacking.limit, left=lacking.left)
    name = _amount_name(lacking)
    amount = say(CausePhrase.AMOUNT, amount=lacking.needed, name=name)
    return say(CausePhrase.LACKING_AMOUNT, amount=amount, limit=limit, held=f" ({listed(by)})" if by else "")


def held_amount(held: HeldAmount) -> str:
    """`1 of slice-5 of counter set gpu`."""
    return say(CausePhrase.AMOUNT, amount=held.amount, name=_amount_name(held))


def _amount_name(amount: LackingAmount | HeldAmount) -> str:
    if not amount.counter_set:
        return amount.name
    return say(CausePhrase.COUNTER, name=amount.name, counter_set=amount.counter_set)


# Selectors


def _selector(found: Cause) -> str:
    if found.selector is None:
        return ""
    text = selector_fault(found.selector)
    return f"; {text}" if found.code is CauseCode.SELECTOR_FAILS else text


def selector_fault(fault: SelectorFault) -> str:
    """Why a selector matches nothing."""
    if fault.code is SelectorCode.NAME_MISSING:
        assert fault.place is not None
        kind, name = say(_KINDS[fault.place.kind]), fault.place.name
        return say(fault.code, kind=kind, name=name, devices=fault.devices, meant=_meant(fault))
    parts = ", ".join(_on_devices(fault.parts))
    return say(fault.code, part=fault.part, values=_values(fault), parts=parts)


def _meant(fault: SelectorFault) -> str:
    if fault.meant is not None and fault.place is not None:
        return say(CausePhrase.MEANT, meant=place(fault.meant, fault.place))
    return say(CausePhrase.KNOWN_NAMES, names=listed(fault.known, _KNOWN)) if fault.known else ""


def place(meant: Place, instead_of: Place) -> str:
    """The shortest way to say where an attribute is, given where it was looked for."""
    if meant.kind != instead_of.kind:
        return f'device.{meant.kind}["{meant.domain}"].{meant.name}'
    if meant.domain != instead_of.domain:
        return say(CausePhrase.MEANT_DOMAIN, kind=say(_KINDS[meant.kind]), name=meant.name, domain=meant.domain)
    return meant.name


def _values(fault: SelectorFault) -> str:
    if fault.place is None:
        return ""
    if not fault.values:
        return say(CausePhrase.NO_VALUES, name=fault.place.name)
    return say(CausePhrase.VALUES, name=fault.place.name, values=listed(_on_devices(fault.values), _VALUES))


def _on_devices(counted: Iterable[tuple[str, int]]) -> list[str]:
    return [say(CausePhrase.ON_DEVICES, what=what, devices=number) for what, number in counted]


# What would help


def suggestion(found: Suggestion) -> str:
    """What to do."""
    return say(_suggestion_template(found), **asdict(found) | {"names": ", ".join(found.names)})


def _suggestion_template(found: Suggestion) -> StrEnum:
    """Some suggestions have other words for one than for several."""
    match found.code:
        case SuggestionCode.MORE_MEMBERS if found.number == 1:
            return CausePhrase.ONE_MORE_MEMBER
        case SuggestionCode.POOL_AGAIN if found.number == 1:
            return CausePhrase.POOL_AGAIN_IN_ONE
        case _:
            return found.code
