"""What is wrong with the input, kept apart from the names of one node and one claim until somebody must read it.

The same plan serves many claims and many nodes, so an error remembers numbers and is put into Kubernetes' words at the
end. Left out: why devices are merely not enough; that is no error (`reasons`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.allocator.content import SelectorError
from dray.allocator.layout import View
from dray.allocator.outcome import Failed

OPTIONAL_HINT = (
    "consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class Trouble(NamedTuple):
    """An error of claim number `claim` (none: of something else) about device or pool number so and so."""

    claim: int | None
    text: str
    device: int | None = None
    pool: int | None = None
    rest: str = ""
    node_only: bool = False

    def failed(self, view: View, claims: Sequence[str]) -> Failed:
        """The error for one node and claims of these names."""
        lead = "" if self.claim is None else f"claim {claims[self.claim]}"
        subject = ""
        if self.device is not None:
            subject = str(view.id_of(self.device))
        elif self.pool is not None:
            subject = str(view.pools[self.pool])
        return Failed(f"{lead}{self.text}{subject}{self.rest}", self.node_only)


def selector_trouble(claim: int, class_name: str, of_class: int, device: int, cause: SelectorError) -> Trouble:
    """A selector failed on a device; the first `of_class` selectors are those of the class."""
    in_class = cause.selector < of_class
    owner = None if in_class else claim
    number = cause.selector if in_class else cause.selector - of_class
    lead = f"class {class_name}: selector #{number}" if in_class else f": selector #{number}"
    if cause.compile:
        return Trouble(owner, f"{lead}: CEL compile error: {cause.text}")
    hint = f". {OPTIONAL_HINT}" if "no such key" in cause.text else ""
    return Trouble(owner, f"{lead} on device ", device=device, rest=f": CEL runtime error: {cause.text}{hint}")


INVALID_POOLS = Trouble(None, "invalid resource pools were encountered", node_only=True)
