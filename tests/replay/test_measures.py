"""What a simulation comes to, measured while it runs."""

from __future__ import annotations

import pytest

from dray.replay.measures import largest_claim
from dray.sim import Cluster, hardware
from tests.sim.test_cluster import machines, pod, template


@pytest.mark.parametrize("guess", range(12))
@pytest.mark.parametrize("taken", [0, 1, 3, 8])
def test_the_largest_claim_is_found_from_wherever_the_search_begins(guess: int, taken: int) -> None:
    cluster = Cluster([*machines(1, devices=8), template(1)])
    for number in range(taken):
        cluster.submit(pod(f"p{number}", 1))
    cluster.settle()
    assert largest_claim(cluster, hardware.CLASS, guess) == 8 - taken
