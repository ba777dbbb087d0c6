"""Observer interface for events in a simulated cluster, used by reports, recordings and tests."""

from __future__ import annotations

from typing import Protocol

from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod
from dray.core.attempt import Promise


class Observer(Protocol):
    """Receives the events of a simulated cluster in order, with the cluster's time."""

    def came(self, now: float, pod: Pod) -> None:
        """Called when a pod starts to wait."""

    def placed(self, now: float, pod: Pod, promise: Promise) -> None:
        """Called when a pod got its node and devices."""

    def refused(self, now: float, pod: Pod, why: Unschedulable) -> None:
        """Called when a pod was tried and refused."""

    def ended(self, now: float, pod: Pod) -> None:
        """Called when a pod has ended or was deleted."""
