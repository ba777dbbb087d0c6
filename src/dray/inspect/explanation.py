"""What `dray explain` finds out, as data: the cause, what would help, and what every node said.

The structs are the JSON output, field by field. Left out: finding it out (`explain`) and printing it (`wording`).
"""

from __future__ import annotations

import msgspec

from dray.api.reasons.nodes import NodeVerdict


class Cause(msgspec.Struct, frozen=True):
    """The one thing that is in the way. `code` is for programs, `text` for people; `help` is what would change it."""

    code: str
    text: str
    help: str = ""


class HeldAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a claim has through a device: of a counter, or (without `counter_set`) of the device's capacity."""

    device: str
    name: str
    amount: str
    counter_set: str = ""


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has devices that were asked for, or counters and capacity that such devices lack."""

    claim: str
    devices: tuple[str, ...]
    consumers: tuple[str, ...] = ()
    node: str = ""
    amounts: tuple[HeldAmount, ...] = ()


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything there is to say about why something waits, or that it does not."""

    kind: str
    name: str
    waits: bool
    cause: Cause
    nodes: tuple[NodeVerdict, ...] = ()
    holders: tuple[Holder, ...] = ()
    notes: tuple[str, ...] = ()
    namespace: str = ""

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
