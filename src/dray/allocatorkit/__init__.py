"""A conformance kit for allocators in any language: recorded answers of Kubernetes, and a runner that compares.

`cases` has what Kubernetes v1.37 was asked and answered: allocations (a node with its slices and classes, claims, what is taken)
and selectors (an expression and a device). `ask_program` puts the questions to a program, `judge` compares one answer, and
`AllocatorReport` sums up. The page `docs/allocatorkit.md` describes the data and the protocol.
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
