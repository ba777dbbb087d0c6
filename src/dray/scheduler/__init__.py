"""Scheduler: finds a node and devices for every pod, and writes the decisions.

`Scheduler(client, gates).run()` works with any API server; see docs/scheduler.md.
"""

from dray.core.configuration import Configuration, SchedulerProfile
from dray.scheduler.scheduler import Scheduler

__all__ = ["Configuration", "Scheduler", "SchedulerProfile"]
