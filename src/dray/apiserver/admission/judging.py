"""Verdicts of expressions about a request: found on the event loop where that takes little time, else in the worker process.

The worker process compiles the expressions again from their policy or webhook and sees the values that they can see. Costs
limit expressions, so a slow machine comes to the same verdict, later. The worker process has no authorizer. A verdict that
depends on one is a `UnansweredQuestion` first, and is computed again with the answer. A check costs 350,000, so the budget of a
policy allows few questions. Left out: what is judged.
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

VALUES = ("object", "oldObject", "request", "namespaceObject", "params")  # what expressions see, but for the authorizer

Evaluate = Callable[[ReadVariable, Interrupt], T]
"""A verdict, from the values of variables by name."""


class JudgementFailed(Exception):
    """There is no verdict, and why."""


class Judging:
    """A judgement that can be sent to the worker process: how to judge, and what the expressions can see."""

    def __init__(self, judge: Evaluate[Any], read: Callable[[str], Value], names: Iterable[str]) -> None:
        self._judge = judge
        self._values = {name: read(name) for name in names}
        check = read("authorizer.requestResource")
        assert isinstance(check, ResourceCheck)
        self._request_check = check.question

    def __call__(self, answers: dict[AuthorizerCheck, CelDecision], interrupt: Interrupt) -> Any:
        """The verdict, an error that says why there is none, or a question."""

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
    """A verdict. `here` judges on the event loop; `there` does the same in the worker process, if that takes too long.

    Raises Lacking if the worker process must judge, and JudgementFailed.
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
