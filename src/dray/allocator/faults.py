"""What is wrong with the input, kept apart from the names of one node and one claim until somebody asks.

The same plan serves many claims and many nodes, so a fault remembers numbers; `failed` fills in the names. Left out: why
devices are merely not enough, which is no error (`diagnosis`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.content import FailedSelector, SelectorFailure
from dray.allocator.layout import NodeView
from dray.allocator.outcome import Failed
from dray.api.reasons.devices import InputCode, InputProblem

_CODES = {
    SelectorFailure.COMPILE: (InputCode.SELECTOR_COMPILE, InputCode.CLASS_SELECTOR_COMPILE),
    SelectorFailure.RUNTIME: (InputCode.SELECTOR_RUNTIME, InputCode.CLASS_SELECTOR_RUNTIME),
    SelectorFailure.MISSING_KEY: (InputCode.SELECTOR_MISSING_KEY, InputCode.CLASS_SELECTOR_MISSING_KEY),
}  # for a selector of the request and of its class


class Fault(NamedTuple):
    """A problem of claim number `claim` (None: of no claim) with device or pool number so and so."""

    problem: InputProblem
    claim: int | None = None
    device: int | None = None
    pool: int | None = None

    def failed(self, view: NodeView, claims: Sequence[str]) -> Failed:
        """The outcome for one node and claims of these names."""
        names = {}
        if self.claim is not None:
            names["claim"] = claims[self.claim]
        if self.device is not None:
            names["device"] = str(view.id_of(self.device))
        if self.pool is not None:
            names["pool"] = str(view.pools[self.pool])
        return Failed(msgspec.structs.replace(self.problem, **names))


def selector_fault(claim: int, class_name: str, of_class: int, device: int, cause: FailedSelector) -> Fault:
    """A selector failed on a device; the first `of_class` selectors are those of the class."""
    in_class = cause.selector < of_class
    number = cause.selector if in_class else cause.selector - of_class
    own, of_its_class = _CODES[cause.failure]
    problem = InputProblem(
        of_its_class if in_class else own, subject=class_name if in_class else "", number=number, detail=cause.text
    )
    return Fault(problem, None if in_class else claim, None if cause.failure is SelectorFailure.COMPILE else device)


INVALID_POOLS = Fault(InputProblem(InputCode.INVALID_POOLS, node_only=True))
