"""An explanation as text lines: the cause, then suggestions, verdicts of nodes, and holders of devices.

Nodes with equal verdicts are combined, so that a thousand equal nodes take one paragraph; below them is a tree of
claims and requests. Each line knows its continuation indent for narrow screens. Left out: colours
(`dray.cli.explain`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from dray.api.quoting import visible
from dray.api.reasons import cause_wording, wording
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.devices import AlternativeReasons, Reasons
from dray.api.reasons.nodes import NodeCode, NodeReason, NodeVerdict
from dray.api.reasons.wording import say
from dray.inspect.explanation import Holder, PreemptionForecast, WaitExplanation

_NODES_NAMED = 5
_HOLDERS_NAMED = 5
_BRANCH, _LAST = ("├─ ", "│  "), ("└─ ", "   ")


class Style(StrEnum):
    """Role of a line, for the code that colours it."""

    CAUSE = "cause"
    HELP = "help"
    PLAIN = "plain"
    NOTE = "note"


class TreeLine(NamedTuple):
    """Text of a line, with prefixes for its first row and for continuation rows."""

    text: str = ""
    style: Style = Style.PLAIN
    first: str = ""
    rest: str = ""

    def below(self, edge: tuple[str, str], *, head: bool) -> TreeLine:
        """Return the line as part of a tree branch. `head` marks the branch's first line."""
        return self._replace(first=(edge[0] if head else edge[1]) + self.first, rest=edge[1] + self.rest)

    def wrapped(self, width: int | None) -> list[str]:
        """Return the rows of the line on a screen of this width, broken between words. None means no wrapping."""
        text = visible(self.text)
        if width is None or len(self.first) + len(text) <= width:
            return [f"{self.first}{text}".rstrip()]
        return textwrap.wrap(
            text,
            max(width, len(self.rest) + 20),
            initial_indent=self.first,
            subsequent_indent=self.rest,
            break_long_words=False,
            break_on_hyphens=False,
        )


def text_of(explanation: WaitExplanation) -> str:
    """Return the explanation as unwrapped text for people."""
    return "\n".join(text for line in lines_of(explanation) for text in line.wrapped(None))


def data_of(explanation: WaitExplanation) -> dict[str, Any]:
    """Return the explanation as JSON data, with texts of the cause and suggestions in addition to their codes.

    Suggestions are listed under `help`.
    """
    tree: dict[str, Any] = msgspec.to_builtins(explanation)
    tree["cause"]["text"] = explanation.cause.text
    for told, suggestion in zip(tree.get("help", ()), explanation.help, strict=False):
        told["text"] = suggestion.text
    return tree


def lines_of(explanation: WaitExplanation) -> list[TreeLine]:
    """Return all lines of the explanation."""
    phrase = CausePhrase.WAITS if explanation.waits else CausePhrase.WAITS_NOT
    lines = [TreeLine(say(phrase, subject=explanation.subject, why=explanation.cause.text), Style.CAUSE, rest="  ")]
    for number, suggestion in enumerate(explanation.help):
        helps = CausePhrase.HELPS_TOO if number else CausePhrase.HELPS
        lines.append(TreeLine(say(helps, what=suggestion.text), Style.HELP, rest="  "))
    lines += [TreeLine(text, Style.PLAIN, rest="  ") for text in _preemption(explanation.preemption)]
    notes = [TreeLine(text, Style.NOTE, rest="  ") for text in notes_of(explanation)]
    for part in (_nodes(explanation.nodes), _holders(explanation.holders), notes):
        lines += [TreeLine(), *part] if part else []
    return lines


def _preemption(found: PreemptionForecast | None) -> Iterator[str]:
    """Yield lines about the pods that would be preempted, and whether another choice disturbs less.

    Yields nothing without a forecast.
    """
    if found is None:
        return
    count = found.violations
    violating = say(CausePhrase.PREEMPTS_VIOLATING, count=count) if count else ""
    pods = cause_wording.listed(found.victims, _HOLDERS_NAMED)
    yield say(CausePhrase.PREEMPTS, pods=pods, where=_place(found.node), violating=violating)
    if found.less:
        pods = cause_wording.listed(found.less, _HOLDERS_NAMED)
        yield say(CausePhrase.PREEMPTS_LESS, pods=pods, where=_place(found.less_node))
    elif found.is_least:
        yield say(CausePhrase.PREEMPTS_LEAST)


def _place(node: str) -> str:
    return say(CausePhrase.ON_NODE, node=node) if node else ""


def notes_of(explanation: WaitExplanation) -> list[str]:
    """Return notes about devices allocated twice, unreadable resources and nodes without a result.

    Empty if there is nothing to note.
    """
    notes = [say(CausePhrase.TWICE, device=one.device, claims=", ".join(one.claims)) for one in explanation.twice]
    if explanation.unread:
        notes.append(say(CausePhrase.BLIND, names=", ".join(explanation.unread)))
    if explanation.late:
        notes.append(say(CausePhrase.LATE, names=cause_wording.listed(explanation.late, _NODES_NAMED)))
    return notes


# Nodes


def _nodes(verdicts: Iterable[NodeVerdict]) -> list[TreeLine]:
    """Return the lines about nodes, grouping nodes with equal verdicts."""
    alike: dict[tuple[TreeLine, ...], list[str]] = {}
    for verdict in verdicts:
        alike.setdefault(tuple(_verdict(verdict)), []).append(verdict.node)
    lines: list[TreeLine] = []
    for said, nodes in sorted(alike.items(), key=lambda item: (len(item[0]), item[1])):
        names = f"node{'s' if len(nodes) > 1 else ''} {cause_wording.listed(nodes, _NODES_NAMED)}"
        lines += [TreeLine(names if said else f"{names}: {say(CausePhrase.FITS)}", rest="  "), *said]
    return lines


def _verdict(verdict: NodeVerdict) -> list[TreeLine]:
    """Return the lines below the name of a node; empty if the pod fits there."""
    told: list[list[TreeLine]] = [
        [TreeLine(_reason(reason), rest="  ")]
        for reason in verdict.reasons
        if reason.code is not NodeCode.CANNOT_ALLOCATE
    ]
    if verdict.progress is not None:
        told.append([TreeLine(wording.timed_out(verdict.progress), rest="  ")])
    if verdict.devices is not None:
        told += _claims(verdict.devices)
    return _tree(told)


def _tree(branches: Sequence[Sequence[TreeLine]]) -> list[TreeLine]:
    """Return branches as lines of a tree; the first line of each branch is its head."""
    return [
        line.below(_LAST if number == len(branches) - 1 else _BRANCH, head=at == 0)
        for number, branch in enumerate(branches)
        for at, line in enumerate(branch)
    ]


def _reason(reason: NodeReason) -> str:
    """Return the text of a rule's reason, with amounts."""
    text = wording.node_reason(reason)
    match reason.code:
        case NodeCode.CLAIM_ELSEWHERE:
            return say(CausePhrase.ELSEWHERE, subject=reason.subject)
        case NodeCode.CLAIM_LOST:
            return say(CausePhrase.LOST, subject=reason.subject)
        case NodeCode.INSUFFICIENT | NodeCode.DEVICES_INSUFFICIENT:
            wanted, found = (_amount(reason.subject, number or 0) for number in (reason.wanted, reason.found))
            return say(CausePhrase.AMOUNTS, text=text, wanted=wanted, found=found)
        case NodeCode.SPREAD:
            return say(CausePhrase.SKEW, text=text, subject=reason.subject, found=reason.found, wanted=reason.wanted)
        case _:
            return text


def _amount(resource: str, number: int) -> str:
    """Return an amount as text; CPU is converted from millicores to cores."""
    return f"{number / 1000:g}" if resource == "cpu" else str(number)


def _claims(reasons: Reasons) -> Iterator[list[TreeLine]]:
    """Yield a branch for each unusable pool, and for each claim with its requests."""
    for pool in reasons.pools:
        yield [TreeLine(say(CausePhrase.UNUSED_POOL, pool=wording.unusable_pool(pool)), rest="  ")]
    requests: dict[str, list[list[TreeLine]]] = {}
    for request in reasons.requests:
        branches = [[TreeLine(f"request {a.name}: {_funnel(a)}", rest="  ")] for a in request.alternatives]
        requests.setdefault(request.claim.partition("/")[2], []).extend(branches)
    for claim, branches in requests.items():
        yield [TreeLine(f"claim {claim}", rest="  "), *_tree(branches)]


def _funnel(alternative: AlternativeReasons) -> str:
    """Return the steps of one request on one node, like `2 needed: 8 published → 8 match class gpu → 1 free ✗`."""
    wanted = "all" if alternative.every else str(alternative.needed)
    steps = []
    for step in alternative.steps:
        steps.append(wording.step(step))
        if not alternative.enough and step is alternative.lost_at:
            steps[-1] += " ✗"
            break
    return f"{wanted} needed: {' → '.join(steps)}"


# Holders


def _holders(holders: tuple[Holder, ...]) -> list[TreeLine]:
    """Return the lines about the claims that hold devices; empty if there are none."""
    if not holders:
        return []
    lines = [TreeLine(say(CausePhrase.HELD_BY))]
    lines += [TreeLine(_holder(holder), first="  ", rest="    ") for holder in holders[:_HOLDERS_NAMED]]
    if len(holders) > _HOLDERS_NAMED:
        lines.append(TreeLine(say(CausePhrase.MORE_HOLDERS, more=len(holders) - _HOLDERS_NAMED), first="  "))
    return lines


def _holder(holder: Holder) -> str:
    count = [wording.devices(len(holder.devices))] if holder.devices else []
    users = say(CausePhrase.USED_BY, names=cause_wording.listed(holder.consumers))
    return say(
        CausePhrase.HOLDER,
        claim=holder.claim,
        devices=", ".join([*count, *map(cause_wording.held_amount, holder.amounts)]),
        where=f" on {holder.node}" if holder.node else "",
        users=users if holder.consumers else say(CausePhrase.USED_BY_NOBODY),
    )
