"""Results of `dray explain` as data: the cause, suggestions, and the verdict of every node.

The structs define the fields of the JSON output (`schema` generates its JSON Schema). Left out: finding the results
(`explain`) and printing them (`layout`).
"""

from __future__ import annotations

import msgspec

from dray.api.reasons import suggestions
from dray.api.reasons.causes import base
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.requested import HeldAmount


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim that holds requested devices, or counters and capacity that these devices lack."""

    claim: str
    devices: tuple[str, ...]
    consumers: tuple[str, ...] = ()
    node: str = ""
    amounts: tuple[HeldAmount, ...] = ()


class AllocatedTwice(msgspec.Struct, frozen=True):
    """A device allocated to more than one claim. This can only happen if several schedulers allocate from one pool."""

    device: str
    claims: tuple[str, ...]


class PreemptionForecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """Victims that a waiting pod or gang would preempt.

    `node` is where the pod would go; empty for a gang. `violations` counts pods whose eviction violates a
    PodDisruptionBudget.
    `less` are victims on `less_node` whose eviction would disturb less. With `is_least`, no better victims exist. If
    `less` is
    empty and `is_least` is false, this is unknown, because there are too many possible sets of victims.
    """

    victims: tuple[str, ...]
    node: str = ""
    violations: int = 0
    less: tuple[str, ...] = ()
    less_node: str = ""
    is_least: bool = False


class WaitExplanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Complete explanation why an object waits, or that it does not.

    `unread` are the resources that the user may not list, `late` the nodes for which time ran out, and `twice` the
    devices of
    the explained claims that are also allocated to other claims.
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
        """Kind and name of the explained object, with the namespace if it has one."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
