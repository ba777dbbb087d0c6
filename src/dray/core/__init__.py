"""The scheduler as a state machine that does no I/O, reads no clock and needs no event loop.

Input is changes of cluster objects; output is decisions about pods. `SchedulerCore` is driven by the scheduler (from
informers), by the simulation (under virtual time) and by explain.
"""
