"""What the rooms of one scheduler share: the queue, the picture of the cluster, and the ways to tell, to write and to think."""

from __future__ import annotations

from dataclasses import dataclass

from dray.core.devices import Devices
from dray.core.queue import SchedulingQueue
from dray.scheduler.conditions import BindingConditions
from dray.scheduler.tasks import Tasks
from dray.scheduler.telling import Teller
from dray.scheduler.thinking import Thinker
from dray.verdicts.nodes import NodeTable


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """One scheduler's own. The picture is the table of nodes and placed pods, and the devices with who holds them."""

    queue: SchedulingQueue
    table: NodeTable
    devices: Devices
    teller: Teller
    tasks: Tasks
    thinker: Thinker
    conditions: BindingConditions
