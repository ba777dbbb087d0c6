"""Whoever wants to know what happens in a simulated cluster: reports, recordings, tests."""

from __future__ import annotations

from typing import Protocol

from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod
from dray.core.attempt import Promise


class Observer(Protocol):
    """Told what happens, in order, with the cluster's time."""

    def came(self, now: float, pod: Pod) -> None:
        """A pod began to wait."""

    def placed(self, now: float, pod: Pod, promise: Promise) -> None:
        """A pod got its node and its devices."""

    def refused(self, now: float, pod: Pod, why: Unschedulable) -> None:
        """A pod was tried and waits on."""

    def ended(self, now: float, pod: Pod) -> None:
        """A pod is gone."""
