"""The measurements of `dray bench`, small: they place what they should and clean up."""

from __future__ import annotations

import pytest

from dray.benchmarks import scheduling as b


@pytest.mark.parametrize("workload", [b.PLAIN, b.SELECTOR, b.FIVE, b.NO_CLAIMS], ids=lambda w: w.name)
async def test_every_workload_runs_in_the_steady_state(workload: b.BenchmarkWorkload) -> None:
    assert await b.steady_state(3, 8, 8, workload) > 0


async def test_a_burst_fills_the_second_half() -> None:
    assert min(await b.burst_into_half_full(2, 8, 8)) > 0


async def test_alternatives_take_the_last_one() -> None:
    workload = b.BenchmarkWorkload("alternatives", (b.alternatives(4),))
    assert await b.burst_of(2, 4, 8, workload) > 0


async def test_waiting_pods_go_on_at_once() -> None:
    for what, seconds in (await b.reactions(6)).items():
        assert seconds[2] < 0.5, what  # some milliseconds on a quiet machine; the shortest backoff is a second


async def test_pods_that_wait_take_the_place_of_those_that_leave() -> None:
    assert await b.replacements(12, 10) > 0
