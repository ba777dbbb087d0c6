"""Errors of compiling and evaluating expressions.

Compiling reports problems with their position in the text; evaluating raises one error. Messages have the wording
of Kubernetes, so that users find them with search engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

INVALID: Final = "RuleInvalid"
INTERNAL: Final = "InternalError"
MAX_PROBLEMS: Final = 100  # reported for one expression


class CelError(Exception):
    """Base class of the errors of this package."""


class CompileError(CelError):
    """The expression does not compile.

    `kind` distinguishes an invalid expression (RuleInvalid) from one that failed to be prepared for evaluation
    (InternalError). `report` lists the problems with their positions; `detail` is the full message around the
    report.
    """

    def __init__(self, detail: str, kind: str = INVALID, report: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.detail = detail
        self.kind = kind
        self.report = report or detail


class EvaluationError(CelError):
    """Evaluating the expression failed."""


class CostExceeded(EvaluationError):
    """Evaluation exceeded its cost limit. Unlike other errors, `&&`, `||` and loops never absorb this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationError):
    """The caller interrupted the evaluation. Unlike other errors, `&&`, `||` and loops never absorb this error."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


class TooSlow(Interrupted):
    """Evaluation takes longer than the caller can wait; neither a failure nor a result of the expression."""


class AuthorizerUnanswered(Interrupted):
    """Evaluation needs an authorizer decision first; the caller restarts it once `question` is answered."""

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question


class NoSuchKey(EvaluationError):
    """A map, object or device has no entry with this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no such key: {key}")


class NoSuchOverload(EvaluationError):
    """An operator or function was called with values of unsupported types."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"no such overload: {detail}" if detail else "no such overload")


@dataclass(frozen=True, slots=True)
class CelIssue:
    """One problem in an expression; `offset` is its position in code points, or None if it has no position."""

    message: str
    offset: int | None = None


class Problems(CelError):
    """The problems that ended one phase of compiling; `more` counts further problems that are not listed."""

    def __init__(self, *problems: CelIssue, more: int = 0) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems
        self.more = more
