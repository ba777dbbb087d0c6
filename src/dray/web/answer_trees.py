"""Parts of answers as the page gets them: codes and numbers, and the words of `dray.api.reasons` beside them. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from dray.api.reasons import wording
from dray.api.reasons.devices import DeviceStep, StepCode
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Suggestion
from dray.api.wire import Tree
from dray.inspect.explanation import WaitExplanation
from dray.questions.room import ClassRoom
from dray.questions.selecting import Failure
from dray.questions.steps import CONSTRAINT, FilterStep
from dray.verdicts.devices import progress
from dray.web.tables import ranges


def failure_tree(one: Failure) -> Tree:
    """The devices that fail at one part of an expression."""
    part = one.part
    return {
        "part": part.text,
        "from": part.start,
        "to": part.end,
        "count": len(one.devices),
        "devices": ranges(one.devices),
    }


def suggested(found: WaitExplanation) -> str:
    """What would help first, in words; empty where nothing is known to."""
    return found.help[0].text if found.help else ""


def change_tree(one: Suggestion) -> Tree:
    """A change that was tried and helps, in words and as it would be written to the API."""
    tree: Tree = msgspec.to_builtins(one)
    return {"changes": []} | tree | {"text": one.text}


def nodes_tree(found: WaitExplanation) -> Tree:
    """What nodes say, counted, and the one that came closest."""
    counted: Counter[NodeReason] = Counter()
    for verdict in found.nodes:
        counted.update(_plain(reason) for reason in verdict.reasons)
    reasons = [
        {
            "code": reason.code.value,
            "rule": reason.rule.value,
            "subject": reason.subject,
            "nodes": count,
            "text": wording.node_reason(reason),
        }
        for reason, count in counted.most_common()
    ]
    short = [verdict for verdict in found.nodes if verdict.devices is not None]
    closest = max(short, key=lambda verdict: progress(verdict.devices), default=None)  # type: ignore[arg-type]
    nearest = None
    if closest is not None and closest.devices is not None:
        nearest = {"node": closest.node, "text": wording.line(closest.devices)}
    return {"total": len(found.nodes), "reasons": reasons, "nearest": nearest}


def _plain(reason: NodeReason) -> NodeReason:
    """The reason without what differs from node to node, so that it can be counted."""
    return NodeReason(reason.code, reason.subject, reason.value, problem=reason.problem)


def step_tree(step: FilterStep, dropped: list[list[int]]) -> Tree:
    """One step of a request; a constraint is told by the attribute that devices must share, if there is one."""
    tree: Tree = {"code": step.code, "text": _condition(step), "left": step.left, "dropped": dropped}
    if step.subject:
        tree["subject"] = step.subject
    return tree if step.number is None else tree | {"number": step.number}


def _condition(step: FilterStep) -> str:
    if step.code == CONSTRAINT and not step.subject:
        return CONSTRAINT
    code = StepCode.MATCHING if step.code == CONSTRAINT else StepCode(step.code)
    words = wording.condition(DeviceStep(code, step.left, step.subject, step.number))
    return f"{words}: {step.text}" if step.text else words


def room_tree(room: ClassRoom) -> Tree:
    """What still fits of a class."""
    return {
        "class": room.name,
        "total": room.total,
        "free": room.free,
        "shared": room.shared,
        "node": {"name": room.node, "count": room.best},
        "cluster": room.together,
        "spread": room.spread,
        "exact": room.exact,
    }
