"""What `dray explain` finds out, as data: the cause, what would help, and what every node said.

The structs are the JSON output, field by field (`schema` has its JSON schema). Left out: finding it out (`explain`) and
printing it (`layout`).
"""

from __future__ import annotations

import msgspec

from dray.api.reasons import suggestions
from dray.api.reasons.causes import base
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.requested import HeldAmount


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has devices that were asked for, or counters and capacity that those devices lack."""

    claim: str
    devices: tuple[str, ...]
    consumers: tuple[str, ...] = ()
    node: str = ""
    amounts: tuple[HeldAmount, ...] = ()


class AllocatedTwice(msgspec.Struct, frozen=True):
    """A device that more than one claim has, which only happens where several schedulers allocate from one pool."""

    device: str
    claims: tuple[str, ...]


class PreemptionForecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom a pod or a gang that waits would preempt.

    `node` is where the pod would go; empty for a gang. `violations` counts pods whose end violates a disruption budget.
    `less` are pods whose end would disturb less, on `less_node`; with `is_least` there are none, and with neither nobody
    knows, since there are too many ways to choose victims.
    """

    victims: tuple[str, ...]
    node: str = ""
    violations: int = 0
    less: tuple[str, ...] = ()
    less_node: str = ""
    is_least: bool = False


class WaitExplanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything there is to say about why something waits, or that it does not.

    `unread` are the resources that the user may not list, `late` the nodes for which there was not enough time, `twice` the
    devices of the claims in question that other claims have as well.
    """

    kind: str
    name: str
    waits: bool
    cause: base.AnyCause
    help: tuple[suggestions.AnySuggestion, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
    holders: tuple[Holder, ...] = ()
    unread: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    namespace: str = ""
    twice: tuple[AllocatedTwice, ...] = ()
    preemption: PreemptionForecast | None = None

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
