"""Finds a node, and devices, for every pod: queue, rules, binding.

`Scheduler(client, gates).run()` works for any API server; see docs/scheduler.md.
"""

from dray.core.configuration import Configuration, SchedulerProfile
from dray.scheduler.scheduler import Scheduler

__all__ = ["Configuration", "Scheduler", "SchedulerProfile"]
