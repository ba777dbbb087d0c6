"""Errors in the input, without the names of a node and a claim.

One plan serves many claims and many nodes, so a fault contains numbers, and `failed` fills in the names. Left out:
shortages of devices, which are no errors (`diagnosis`).
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
    """A problem, with the numbers of the claim, device and pool that it concerns (None: it concerns none)."""

    problem: InputProblem
    claim: int | None = None
    device: int | None = None
    pool: int | None = None

    def failed(self, view: NodeView, claims: Sequence[str]) -> Failed:
        """Return the outcome with the names of one node's devices and of claims filled in."""
        names = {}
        if self.claim is not None:
            names["claim"] = claims[self.claim]
        if self.device is not None:
            names["device"] = str(view.id_of(self.device))
        if self.pool is not None:
            names["pool"] = str(view.pools[self.pool])
        return Failed(msgspec.structs.replace(self.problem, **names))


def selector_fault(claim: int, class_name: str, of_class: int, device: int, cause: FailedSelector) -> Fault:
    """Return the fault for a selector that failed on device number `device`.

    The first `of_class` selectors are those of the class, and a fault of theirs names the class, not the claim. A
    fault of a selector that does not compile names no device.
    """
    in_class = cause.selector < of_class
    number = cause.selector if in_class else cause.selector - of_class
    own, of_its_class = _CODES[cause.failure]
    problem = InputProblem(
        of_its_class if in_class else own, subject=class_name if in_class else "", number=number, detail=cause.text
    )
    return Fault(problem, None if in_class else claim, None if cause.failure is SelectorFailure.COMPILE else device)


INVALID_POOLS = Fault(InputProblem(InputCode.INVALID_POOLS, node_only=True))
