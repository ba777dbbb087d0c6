"""Verdicts of CEL expressions on a request: evaluated on the event loop if that is quick, else in the worker process.

The worker process compiles the expressions again from their policy or webhook and receives all values that they can
read. Costs limit expressions, so a slow machine reaches the same verdict later. The worker process has no authorizer:
an evaluation that needs an authorization check returns an `UnansweredQuestion` and is repeated with the answer. A
check costs 350,000, so the budget of a policy allows only a few.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from dray.api.needs import KnownValues, Lacking
from dray.apiserver.steps import quickly
from dray.background.resolver import Computing, UnansweredQuestion
from dray.cel.admission import ReadVariable
from dray.cel.errors import AuthorizerUnanswered, TooSlow
from dray.cel.limits import Interrupt, giving_up
from dray.cel.values import AuthorizerCheck, CelAuthorizer, CelDecision, ResourceCheck, Value

T = TypeVar("T")

# variables of expressions, except the authorizer
VALUES = ("object", "oldObject", "request", "namespaceObject", "params")

Evaluate = Callable[[ReadVariable, Interrupt], T]
"""Computes a verdict from a function that returns variables by name."""


class JudgementFailed(Exception):
    """No verdict is possible. The text has the reason."""


class Judging:
    """An evaluation for the worker process: the judge and the values that its expressions can read."""

    def __init__(self, judge: Evaluate[Any], read: Callable[[str], Value], names: Iterable[str]) -> None:
        self._judge = judge
        self._values = {name: read(name) for name in names}
        check = read("authorizer.requestResource")
        assert isinstance(check, ResourceCheck)
        self._request_check = check.question

    def __call__(self, answers: dict[AuthorizerCheck, CelDecision], interrupt: Interrupt) -> Any:
        """Return the verdict, a JudgementFailed error, or an UnansweredQuestion for the authorizer."""

        def answer(question: AuthorizerCheck) -> CelDecision:
            if question not in answers:
                raise AuthorizerUnanswered(question)
            return answers[question]

        def read(name: str) -> Value:
            if name == "authorizer":
                return CelAuthorizer(answer)
            return ResourceCheck(answer, self._request_check) if name.startswith("authorizer") else self._values[name]

        try:
            return self._judge(read, giving_up(interrupt))
        except AuthorizerUnanswered as unanswered:
            return UnansweredQuestion(unanswered.question)
        except JudgementFailed as error:
            return error


def judged(
    known: KnownValues,
    key: Hashable,
    read: ReadVariable,
    here: Evaluate[T],
    there: Evaluate[T],
    names: Iterable[str] = VALUES,
) -> T:
    """Return the verdict that `known` has for a key, or compute it.

    `here` runs on the event loop; `there` computes the same in the worker process if that takes too long. `names` are
    the variables that the worker process gets. Raises JudgementFailed, and Lacking if the worker process must compute
    the verdict.
    """
    if key not in known:
        try:
            return here(read, quickly())
        except TooSlow:
            check = read("authorizer.requestResource")
            assert isinstance(check, ResourceCheck)
            raise Lacking(known, Computing(key, "policies", Judging(there, read, names), check.ask)) from None
    verdict = known[key]
    if isinstance(verdict, JudgementFailed):
        raise verdict
    return verdict  # type: ignore[no-any-return]  # what `there` returned
