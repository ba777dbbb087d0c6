"""What every controller is given, and what it must be able to do.

Left out: which controllers there are (`registry`) and who runs them (`manager`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from dray.api.gates import FeatureGates
from dray.client import Client, Clock, Controller, EventRecorder, SharedInformers, SystemClock
from dray.client.controller import Reconcile
from dray.client.workqueue import K


@dataclass(frozen=True)
class ControllerContext:
    """What the controllers of one process share."""

    client: Client
    informers: SharedInformers
    recorder: EventRecorder
    gates: FeatureGates = field(default_factory=FeatureGates)
    clock: Clock = field(default_factory=SystemClock)
    root_ca: str = ""  # PEM of the authority that pods should trust; empty: none is published
    volumes: str = ""  # the directory below which volumes are made; empty: none are
    accounts: Callable[[str], Client] | None = None  # clients of their own for controllers that want one, by account

    def client_for(self, account: str) -> Client:
        """A client of the controller's own, which may do what its account may; the shared one where there is none."""
        return self.accounts(account) if self.accounts is not None else self.client

    def controller(self, name: str, reconcile: Reconcile[K], workers: int = 1) -> Controller[K]:
        """A queue of keys, and the workers that reconcile them."""
        return Controller(name, reconcile, workers=workers, clock=self.clock)


class Runnable(Protocol):
    """A controller. Its constructor asks for informers and adds handlers; `run` works until cancelled."""

    async def run(self) -> None: ...


Factory = Callable[[ControllerContext], Runnable]
