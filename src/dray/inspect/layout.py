"""An explanation as lines: the cause first, then what would help, what the nodes say, and who has the devices.

Nodes that say the same are told together, so that a thousand equal nodes take one paragraph; below them stands a tree of
claims and requests. A line knows how it goes on when it is too long for a screen. Left out: colours (`dray.cli.explain`).
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
    """What a line is, for those who draw it."""

    CAUSE = "cause"
    HELP = "help"
    PLAIN = "plain"
    NOTE = "note"


class TreeLine(NamedTuple):
    """Some text with what stands before it, and before what goes on below it."""

    text: str = ""
    style: Style = Style.PLAIN
    first: str = ""
    rest: str = ""

    def below(self, edge: tuple[str, str], *, head: bool) -> TreeLine:
        """The line as part of a branch of a tree."""
        return self._replace(first=(edge[0] if head else edge[1]) + self.first, rest=edge[1] + self.rest)

    def wrapped(self, width: int | None) -> list[str]:
        """The line on a screen so wide, broken at words."""
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
    """Several lines for a person, each as long as it is."""
    return "\n".join(text for line in lines_of(explanation) for text in line.wrapped(None))


def data_of(explanation: WaitExplanation) -> dict[str, Any]:
    """Everything for a program, with the words of cause and suggestions beside their codes."""
    tree: dict[str, Any] = msgspec.to_builtins(explanation)
    tree["cause"]["text"] = explanation.cause.text
    for told, suggestion in zip(tree.get("help", ()), explanation.help, strict=False):
        told["text"] = suggestion.text
    return tree


def lines_of(explanation: WaitExplanation) -> list[TreeLine]:
    """The explanation, line by line."""
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
    """Who would be preempted, and whether another choice disturbs less."""
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
    """What this explanation could not look at, or did not finish."""
    notes = [say(CausePhrase.TWICE, device=one.device, claims=", ".join(one.claims)) for one in explanation.twice]
    if explanation.unread:
        notes.append(say(CausePhrase.BLIND, names=", ".join(explanation.unread)))
    if explanation.late:
        notes.append(say(CausePhrase.LATE, names=cause_wording.listed(explanation.late, _NODES_NAMED)))
    return notes


# Nodes


def _nodes(verdicts: Iterable[NodeVerdict]) -> list[TreeLine]:
    alike: dict[tuple[TreeLine, ...], list[str]] = {}
    for verdict in verdicts:
        alike.setdefault(tuple(_verdict(verdict)), []).append(verdict.node)
    lines: list[TreeLine] = []
    for said, nodes in sorted(alike.items(), key=lambda item: (len(item[0]), item[1])):
        names = f"node{'s' if len(nodes) > 1 else ''} {cause_wording.listed(nodes, _NODES_NAMED)}"
        lines += [TreeLine(names if said else f"{names}: {say(CausePhrase.FITS)}", rest="  "), *said]
    return lines


def _verdict(verdict: NodeVerdict) -> list[TreeLine]:
    """What stands below the name of a node; nothing, where it fits."""
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
    """Branches below each other, each headed by its first line."""
    return [
        line.below(_LAST if number == len(branches) - 1 else _BRANCH, head=at == 0)
        for number, branch in enumerate(branches)
        for at, line in enumerate(branch)
    ]


def _reason(reason: NodeReason) -> str:
    """What a rule says, with the numbers behind it."""
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
    return f"{number / 1000:g}" if resource == "cpu" else str(number)


def _claims(reasons: Reasons) -> Iterator[list[TreeLine]]:
    """A branch for every pool that cannot be used and for every claim, with its requests below it."""
    for pool in reasons.pools:
        yield [TreeLine(say(CausePhrase.UNUSED_POOL, pool=wording.unusable_pool(pool)), rest="  ")]
    requests: dict[str, list[list[TreeLine]]] = {}
    for request in reasons.requests:
        branches = [[TreeLine(f"request {a.name}: {_funnel(a)}", rest="  ")] for a in request.alternatives]
        requests.setdefault(request.claim.partition("/")[2], []).extend(branches)
    for claim, branches in requests.items():
        yield [TreeLine(f"claim {claim}", rest="  "), *_tree(branches)]


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


# Holders


def _holders(holders: tuple[Holder, ...]) -> list[TreeLine]:
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
