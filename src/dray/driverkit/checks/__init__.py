"""The requirements for a DRA driver, one function each. Its docstring's first line is the requirement, shown in
reports.

Each check creates the claims that it needs and raises `CheckFailed` with the expected and the actual behaviour. The
driver is registered when a check runs. The order matters, since later checks rely on the behaviour that earlier ones
test. Left out: running the checks (`running`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dray.driverkit.checks import prepare, registration, restart, slices, unprepare
from dray.driverkit.setting import Setting

DriverCheck = Callable[[Setting], Awaitable[None]]

CHECKS: dict[str, tuple[DriverCheck, ...]] = {
    "registration": (
        registration.introduces_itself,
        registration.takes_the_answer_to_its_registration,
        registration.serves_what_it_announces,
        registration.uses_paths_that_can_be_bound,
    ),
    "slices": (
        slices.publishes_slices_that_are_accepted,
        slices.publishes_complete_pools,
        slices.publishes_what_is_its_own,
        slices.writes_nothing_without_need,
        slices.puts_back_deleted_slices,
        slices.puts_right_changed_slices,
        slices.removes_strange_slices,
        slices.raises_the_generation,
    ),
    "prepare": (
        prepare.prepares_a_claim,
        prepare.names_the_devices,
        prepare.writes_cdi_specs,
        prepare.prepares_twice_the_same,
        prepare.answers_for_every_claim,
        prepare.refuses_unknown_claims,
        prepare.checks_the_uid,
        prepare.refuses_unallocated_claims,
        prepare.refuses_devices_that_are_gone,
        prepare.ignores_other_drivers,
        prepare.speaks_all_versions_alike,
        prepare.prepares_many_devices,
        prepare.answers_parallel_calls,
        prepare.answers_while_another_call_hangs,
    ),
    "unprepare": (
        unprepare.unprepares_a_claim,
        unprepare.unprepares_twice,
        unprepare.unprepares_what_it_never_prepared,
        unprepare.unprepares_without_the_claim,
        unprepare.prepares_again_afterwards,
    ),
    "restart": (
        restart.remembers_claims_over_a_restart,
        restart.comes_back_after_being_killed,
        restart.takes_its_sockets_away,
        restart.handles_a_path_that_is_too_long,
        restart.leaves_nothing_behind,
    ),
}
