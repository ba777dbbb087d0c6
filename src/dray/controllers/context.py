"""The shared objects that every controller gets, and the interface of a controller.

Left out: the list of controllers (`registry`) and running them (`manager`).
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
    """Objects and settings that the controllers of one process share."""

    client: Client
    informers: SharedInformers
    recorder: EventRecorder
    gates: FeatureGates = field(default_factory=FeatureGates)
    clock: Clock = field(default_factory=SystemClock)
    root_ca: str = ""  # CA certificate in PEM that pods should trust; empty: none is published
    volumes: str = ""  # directory in which volumes are created; empty: no volumes are created
    accounts: Callable[[str], Client] | None = None  # returns a client that acts as a service account

    def client_for(self, account: str) -> Client:
        """Return a client that acts as this service account, or the shared client if there are no separate ones.

        `account` is the name of the service account.
        """
        return self.accounts(account) if self.accounts is not None else self.client

    def controller(self, name: str, reconcile: Reconcile[K], workers: int = 1) -> Controller[K]:
        """Return a new controller: a queue of keys, and workers that call `reconcile` with each key.

        `workers` is the number of keys handled at the same time.
        """
        return Controller(name, reconcile, workers=workers, clock=self.clock)


class Runnable(Protocol):
    """A controller. Its constructor requests informers and adds handlers; `run` works until it is cancelled."""

    async def run(self) -> None: ...


Factory = Callable[[ControllerContext], Runnable]
