"""The scheduler as a state machine: changes of the cluster in, decisions out. No input or output, no clock, no event loop.

`SchedulerCore` is driven by the scheduler (from informers), by the simulation (under virtual time) and by explain.
"""
