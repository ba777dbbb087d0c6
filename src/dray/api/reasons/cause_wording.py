"""Formats parts of the texts of causes: requests, names, refusals, amounts and selectors.

The texts of the causes themselves are in their structs (`causes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.devices import LackingAmount
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.requested import ClaimAmount, HeldAmount, RequestedDevices
from dray.api.reasons.selector_faults import Place, SelectorCode, SelectorFault
from dray.api.reasons.wording import Phrase, node_reason, say

_NAMED = 3  # maximum number of names listed in a sentence
_KNOWN = 8  # maximum number of existing attribute names listed in a sentence
_VALUES = 4  # maximum number of attribute values listed in a sentence
_KINDS = {"attributes": CausePhrase.ATTRIBUTE, "capacity": CausePhrase.CAPACITY}


def asked(what: RequestedDevices) -> str:
    """Return the name of a request: `request r of claim c`, or the extended resource that it stands for."""
    if what.resource:
        return say(CausePhrase.EXTENDED_RESOURCE, resource=what.resource, request=what.request)
    return say(CausePhrase.REQUEST, request=what.request, claim=claim_named(what.claim, what.template))


def claim_named(claim: str, template: str = "") -> str:
    """Return `claim c`, or `claim template t` if it has a template: users do not know generated names."""
    if template:
        return say(CausePhrase.TEMPLATE_NAMED, template=template)
    return say(CausePhrase.CLAIM_NAMED, claim=claim)


def requests_of(claim: str, requests: Sequence[str], template: str = "") -> str:
    """Return the names of requests for a sentence: `requests r, s of claim c`."""
    claim = claim_named(claim, template)
    if len(requests) > 1:
        return say(CausePhrase.REQUESTS, requests=", ".join(requests), claim=claim)
    return say(CausePhrase.REQUEST, request=", ".join(requests), claim=claim)


def refusals(counted: Iterable[tuple[NodeReason, int]]) -> str:
    """Return why nodes refuse a pod, with the number of nodes: `2 Insufficient cpu, 1 node(s) were unschedulable`.

    The most frequent reason comes first. Empty if there are no reasons.
    """
    counts: dict[str, int] = {}
    for reason, number in counted:
        text = node_reason(reason)
        counts[text] = counts.get(text, 0) + number
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(say(Phrase.SOME_NODES, count=count, why=text) for text, count in ordered)


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first `most` names, separated by commas, and the number of further names if there are any."""
    shown = ", ".join(names[:most])
    return say(CausePhrase.AND_MORE, names=shown, more=len(names) - most) if len(names) > most else shown


# Amounts


def lacks(lacking: Sequence[LackingAmount], held: Sequence[ClaimAmount]) -> str:
    """Return what one device lacks: `gpu-1 needs 1 of slice-5 of counter set gpu, 0 left (default/nb-0 holds 1)`."""
    device = lacking[0].device.rpartition("/")[2]
    amounts = say(CausePhrase.AND_AMOUNT).join(_lacking(amount, held) for amount in lacking)
    return say(CausePhrase.LACKS, device=device, amounts=amounts)


def _lacking(lacking: LackingAmount, held: Iterable[ClaimAmount]) -> str:
    by = [
        say(CausePhrase.HOLDS_AMOUNT, claim=one.claim, amount=one.held.amount)
        for one in held
        if (one.held.place, one.held.counter_set, one.held.name) == (lacking.place, lacking.counter_set, lacking.name)
    ]
    limit = say(lacking.limit, left=lacking.left)
    name = _amount_name(lacking)
    amount = say(CausePhrase.AMOUNT, amount=lacking.needed, name=name)
    return say(CausePhrase.LACKING_AMOUNT, amount=amount, limit=limit, held=f" ({listed(by)})" if by else "")


def held_amount(held: HeldAmount) -> str:
    """Return an amount that a claim holds: `1 of slice-5 of counter set gpu`."""
    return say(CausePhrase.AMOUNT, amount=held.amount, name=_amount_name(held))


def _amount_name(amount: LackingAmount | HeldAmount) -> str:
    if not amount.counter_set:
        return amount.name
    return say(CausePhrase.COUNTER, name=amount.name, counter_set=amount.counter_set)


# Selectors


def selector_fault(fault: SelectorFault) -> str:
    """Return the reason why a selector matches no device."""
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
    """Return the shortest name of an attribute or capacity that differs from the selector's, `instead_of`."""
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
