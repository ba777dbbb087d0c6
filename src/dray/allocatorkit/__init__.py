"""Conformance kit for allocators in any language: recorded answers of Kubernetes, and a runner that compares answers.

`cases` contains questions to Kubernetes v1.37 with its answers: allocations (a node with slices and classes, claims,
taken
devices) and selectors (an expression and a device). `ask_program` sends the questions to a program, `judge` compares
an
answer, and `AllocatorReport` summarizes. See `docs/allocatorkit.md` for data and protocol.
"""

from dray.allocatorkit.cases import AllocationCase, SelectorCase, cases
from dray.allocatorkit.judging import AnswerVerdict, judge
from dray.allocatorkit.report import AllocatorReport
from dray.allocatorkit.running import ProgramError, ask_program, read_answers

__all__ = [
    "AllocationCase",
    "AllocatorReport",
    "AnswerVerdict",
    "ProgramError",
    "SelectorCase",
    "ask_program",
    "cases",
    "judge",
    "read_answers",
]
