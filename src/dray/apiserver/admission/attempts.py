"""Computations of admission that do not wait, and what they need that takes waiting.

Expressions are evaluated on the event loop where that takes little time, and see objects in the version of their rule.
One that takes long, or a version that only a conversion webhook can make, is asked for by raising; it is found out, and
the computation is attempted again with what is known then. Costs limit expressions, so a slow machine comes to the same
verdict, later. Left out: what is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextvars import copy_context
from typing import Any, TypeVar

from dray.api.conversion import Unconverted
from dray.api.errors import InternalError
from dray.apiserver.computing import computed
from dray.apiserver.custom.conversions import Conversions, remembering
from dray.apiserver.wire.beside import beside
from dray.background import Background, Interrupt
from dray.cel.errors import AuthorizerUnanswered, TooSlow
from dray.cel.limits import giving_up
from dray.cel.values import Ask, AuthorizerCheck, CelAuthorizer, CelDecision, ResourceCheck, Value

T = TypeVar("T")
Known = dict[Hashable, Any]  # what other processes found, by the plugin that asked


VALUES = ("object", "oldObject", "request", "namespaceObject", "params")  # what expressions see, but for the authorizer


class Visible:
    """What the expressions of a policy or webhook can see, read once so that it can be sent to another process."""

    def __init__(self, read: Callable[[str], Value], names: Iterable[str] = VALUES) -> None:
        check = read("authorizer.requestResource")
        assert isinstance(check, ResourceCheck)
        self.values = {name: read(name) for name in names}
        self.request_check = check.question
        self.ask = check.ask


class Judging(ABC):
    """A judgement that another process makes from the values that expressions can see. The verdict is None until it has.

    The other process has no authorizer. A judgement that asks one ends with a `question`; it is made again with the
    answer. A check costs 350,000, so the budget of a policy allows few questions.
    """

    def __init__(self, visible: Visible) -> None:
        self._values = visible.values
        self._request_check = visible.request_check
        self.answers: dict[AuthorizerCheck, CelDecision] = {}
        self.question: AuthorizerCheck | None = None
        self.verdict: Any = None

    @abstractmethod
    def judged(self, interrupt: Interrupt) -> Any:
        """What the verdict is. Raises what the interrupt raises, and AuthorizerUnanswered."""

    def read(self, name: str) -> Value:
        """The value of a variable."""
        if name == "authorizer":
            return CelAuthorizer(self._answer)
        if name == "authorizer.requestResource":
            return ResourceCheck(self._answer, self._request_check)
        return self._values[name]

    def _answer(self, question: AuthorizerCheck) -> CelDecision:
        if question not in self.answers:
            raise AuthorizerUnanswered(question)
        return self.answers[question]

    def run(self, interrupt: Interrupt) -> bool:
        """Judge, or start over in the next turn, which is longer."""
        try:
            self.verdict = self.judged(giving_up(interrupt))
        except TooSlow:
            return False
        except AuthorizerUnanswered as unanswered:
            self.question = unanswered.question
        return True

    def found(self) -> Any:
        return self.verdict, self.question

    def accept(self, found: Any) -> None:
        self.verdict, self.question = found


class Elsewhere(Exception):
    """A verdict takes too long to be found out on the event loop. `ask` is the authorizer."""

    def __init__(self, asked: Hashable, judging: Judging, ask: Ask) -> None:
        self.asked = asked
        self.judging = judging
        self.ask = ask


Missing = (Elsewhere, Unconverted)


class Attempts:
    """Makes computations again and again until nothing is missing."""

    def __init__(self, conversions: Conversions | None = None) -> None:
        self._conversions = conversions
        self._background = Background()

    async def settled(self, compute: Callable[[Known], T], missing: Exception | None = None, beside_for: str = "") -> T:
        """What a computation comes to that leaves nothing behind where it raises; `missing` is what it lacked at first.

        One that takes long is made beside the event loop, in the turn of a user (`beside_for`).
        """
        known: Known = {}
        with remembering():
            while True:
                try:
                    if missing is None and beside_for:
                        return await beside(beside_for, copy_context().run, compute, known)
                    if missing is None:
                        return compute(known)
                    await self._find(missing, known)
                    missing = None
                except Missing as raised:
                    missing = raised

    async def _find(self, missing: Exception, known: Known) -> None:
        if isinstance(missing, Elsewhere):
            known[missing.asked] = await self._judged(missing.judging, missing.ask)
        elif isinstance(missing, Unconverted):
            assert self._conversions is not None, "a server with webhooks for conversion knows how to call them"
            await self._conversions.find(missing)

    async def _judged(self, judging: Judging, ask: Ask) -> Any:
        await computed(self._background, [judging], "admission policies")
        while judging.verdict is None and judging.question is not None:
            judging.answers[judging.question] = ask(judging.question)
            judging.question = None
            await computed(self._background, [judging], "admission policies")
        if judging.verdict is None:
            raise InternalError("an expression could not be evaluated: the process that does so has ended")
        return judging.verdict

    async def aclose(self) -> None:
        await self._background.close()
