"""What can go wrong with an expression, and how it is told.

Compiling reports problems with their place in the text; evaluating raises one error. Both use
the words of Kubernetes, since people paste them into search engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

INVALID: Final = "RuleInvalid"
INTERNAL: Final = "InternalError"
MAX_PROBLEMS: Final = 100  # that are told of one expression


class CelError(Exception):
    """Anything this package raises on purpose."""


class CompileError(CelError):
    """The expression is not a selector. `kind` tells a bad expression from one that cannot be set up.

    `report` is what is wrong at which place; `detail` may say more around it.
    """

    def __init__(self, detail: str, kind: str = INVALID, report: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.detail = detail
        self.kind = kind
        self.report = report or detail


class EvaluationError(CelError):
    """The expression has no value for this device."""


class CostExceeded(EvaluationError):
    """Evaluation was cut off at its cost limit; no operator absorbs this."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationError):
    """Evaluation was interrupted from outside; no operator absorbs this."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


class TooSlow(Interrupted):
    """An evaluation takes longer than whoever asked can wait; it is neither a failure nor a result."""


class AuthorizerUnanswered(Interrupted):
    """An evaluation asks the authorizer something that is not answered yet; it starts over with the answer."""

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question


class NoSuchKey(EvaluationError):
    """A map, an object or a device has nothing under the name that was asked for."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no such key: {key}")


class NoSuchOverload(EvaluationError):
    """An operator or function was given values of types it does not know."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"no such overload: {detail}" if detail else "no such overload")


@dataclass(frozen=True, slots=True)
class CelIssue:
    """One complaint; `offset` counts code points, None where the complaint has no place."""

    message: str
    offset: int | None = None


class Problems(CelError):
    """The complaints that ended one phase of compiling; `more` of them were not kept."""

    def __init__(self, *problems: CelIssue, more: int = 0) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems
        self.more = more
