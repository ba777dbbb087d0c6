"""Ordered nodes that have not arrived: how many still count, and which failed. No I/O; the current time is passed in.

An order counts until its nodes are registered. It fails if the provider reports an error, or if no node arrives for
too long; its instances must then be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api.types.core import Node
from dray.autoscaling.provider import GroupStatus, InstanceState


class OrderState(msgspec.Struct, frozen=True):
    """State of a group's orders: open nodes, ids of failed instances with the reason, and whether all have arrived."""

    open: int
    failed: tuple[str, ...] = ()
    why: str = ""
    delivered: bool = False


class _Open(msgspec.Struct):
    """Open order of a group: start of its timeout, and number of missing nodes."""

    since: float
    missing: int = 0


class Orders:
    """Open orders by group."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[str, _Open] = {}

    def placed(self, group: str, now: float) -> None:
        """Record that nodes of a group were ordered."""
        self._open[group] = _Open(now)

    def judge(self, status: GroupStatus, there: Iterable[Node], now: float) -> OrderState:
        """Return the state of a group's orders, given its registered nodes."""
        nodes = [*there]
        known = {node.spec.providerID for node in nodes}
        absent = [one for one in status.instances if one.id not in known and one.state is not InstanceState.DELETING]
        missing = max(0, status.target - len(nodes))
        broken = [one for one in absent if one.error]
        if not missing:
            return OrderState(0, delivered=self._open.pop(status.name, None) is not None)
        order = self._open.setdefault(status.name, _Open(now))
        if missing < order.missing:
            order.since = now  # some nodes have arrived, so the timeout of the others restarts
        order.missing = missing
        if broken:
            return OrderState(missing - len(broken), tuple(one.id for one in broken), broken[0].error)
        if now - order.since < self._seconds:
            return OrderState(missing)
        self._open.pop(status.name)
        return OrderState(0, tuple(one.id for one in absent), f"nothing came for {self._seconds:g} s")
