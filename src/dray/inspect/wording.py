"""An explanation as text: the cause first, then what would help, what the nodes say, and who has the devices.

Nodes that say the same are told together, so that a thousand equal nodes take one paragraph. Left out: colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dray.api.reasons import wording
from dray.api.reasons.devices import AlternativeReasons, LackingAmount, Reasons
from dray.api.reasons.nodes import NodeCode, NodeReason, NodeVerdict
from dray.inspect.explanation import Explanation, HeldAmount, Holder

_NODES_NAMED = 5
_HOLDERS_NAMED = 10
_HOLDERS_TOLD = 3  # of one amount


def text_of(explanation: Explanation) -> str:
    """Several lines for a person."""
    verb = " waits" if explanation.waits else ""
    lines = [f"{explanation.subject}{verb}: {explanation.cause.text}"]
    if explanation.cause.help:
        lines.append(f"would help: {explanation.cause.help}")
    if explanation.nodes:
        lines += ["", *_nodes(explanation.nodes)]
    if explanation.holders:
        lines += ["", "devices that would do are held by", *_holders(explanation.holders)]
    if explanation.notes:
        lines += ["", *explanation.notes]
    return "\n".join(lines)


def _nodes(verdicts: Iterable[NodeVerdict]) -> list[str]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        alike.setdefault(tuple(_verdict(verdict)), []).append(verdict.node)
    lines: list[str] = []
    for said, nodes in sorted(alike.items(), key=lambda item: (len(item[0]), item[1])):
        lines += [f"{_named(nodes)}{said[0]}", *said[1:]]
    return lines


def _named(nodes: list[str]) -> str:
    shown = ", ".join(nodes[:_NODES_NAMED])
    more = f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else ""
    return f"node{'s' if len(nodes) > 1 else ''} {shown}{more}"


def _verdict(verdict: NodeVerdict) -> list[str]:
    """The first line goes on after the names of the nodes."""
    if verdict.fits:
        return [": fits"]
    told = [f"  {_reason(reason)}" for reason in verdict.reasons if reason.code is not NodeCode.CANNOT_ALLOCATE]
    if verdict.progress is not None:
        told.append(f"  {wording.timed_out(verdict.progress)}")
    if verdict.devices is not None:
        told += _funnels(verdict.devices)
    return ["", *told]


def _reason(reason: NodeReason) -> str:
    """What a rule says, with the numbers behind it."""
    text = wording.node_reason(reason)
    if reason.code is NodeCode.CLAIM_ELSEWHERE:
        return f"claim {reason.subject} is allocated elsewhere"
    if reason.code is NodeCode.INSUFFICIENT:
        wanted, found = (
            f"{n / 1000:g}" if reason.subject == "cpu" else n for n in (reason.wanted or 0, reason.found or 0)
        )
        return f"{text}: {wanted} asked for, {found} left"
    if reason.code is NodeCode.SPREAD:
        return f"{text}: {reason.subject} would have a skew of {reason.found}, {reason.wanted} is allowed"
    return text


def _funnels(reasons: Reasons) -> list[str]:
    lines = [f"  {wording.unusable_pool(pool)}: its devices are not used" for pool in reasons.pools]
    for request in reasons.requests:
        claim = request.claim.partition("/")[2]
        lines += [f"  claim {claim}, request {a.name}: {_funnel(a)}" for a in request.alternatives]
    return lines


def _funnel(alternative: AlternativeReasons) -> str:
    """One request on one node: `2 needed: 8 published → 8 match class gpu → 1 free ✗`."""
    wanted = "all" if alternative.every else str(alternative.needed)
    steps = []
    for step in alternative.steps:
        steps.append(wording.step(step))
        if not alternative.enough and step is alternative.lost_at:
            steps[-1] += " ✗"
            break
    return f"{wanted} needed: {' → '.join(steps)}"


def _holders(holders: tuple[Holder, ...]) -> list[str]:
    lines = []
    for holder in holders[:_HOLDERS_NAMED]:
        users = f" (used by {', '.join(holder.consumers)})" if holder.consumers else " (used by nobody)"
        where = f" on {holder.node}" if holder.node else ""
        count = [f"{len(holder.devices)} device{'s' if len(holder.devices) > 1 else ''}"] if holder.devices else []
        lines.append(f"  claim {holder.claim}: {', '.join([*count, *map(_held, holder.amounts)])}{where}{users}")
    if len(holders) > _HOLDERS_NAMED:
        lines.append(f"  and {len(holders) - _HOLDERS_NAMED} more claims")
    return lines


def lacking_amounts(lacking: Sequence[LackingAmount], holders: Mapping[str, Sequence[HeldAmount]]) -> str:
    """What one device lacks: `gpu-1 needs 1 of slice-5 of gpu, 0 left (default/nb-0 holds 1)`."""
    device = lacking[0].device.rpartition("/")[2]
    return f"{device} needs " + ", and ".join(_lacking(amount, holders) for amount in lacking)


def _lacking(lacking: LackingAmount, holders: Mapping[str, Sequence[HeldAmount]]) -> str:
    limit = wording.say(lacking.limit, left=lacking.left)
    held = [
        f"{claim} holds {one.amount}"
        for claim, amounts in holders.items()
        for one in amounts
        if (one.counter_set, one.name) == (lacking.counter_set, lacking.name)
        and (one.counter_set or one.device == lacking.device)
    ]
    shown = held[:_HOLDERS_TOLD] + ([f"and {len(held) - _HOLDERS_TOLD} more"] if len(held) > _HOLDERS_TOLD else [])
    by = f" ({', '.join(shown)})" if held else ""
    return f"{lacking.needed} of {_amount_name(lacking)}, {limit}{by}"


def _held(held: HeldAmount) -> str:
    return f"{held.amount} of {_amount_name(held)}"


def _amount_name(amount: LackingAmount | HeldAmount) -> str:
    return f"{amount.name} of counter set {amount.counter_set}" if amount.counter_set else amount.name
