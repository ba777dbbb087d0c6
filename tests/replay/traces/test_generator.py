"""Load by the laws of chance."""

from __future__ import annotations

import pytest

from dray.replay.traces import TraceError
from dray.replay.traces.generator import ARRIVALS, DURATIONS, LoadShape, generate


def test_the_same_seed_gives_the_same_pods() -> None:
    shape = LoadShape(50, sizes={1: 1, 4: 1}, grouped=0.3)
    assert generate(shape) == generate(shape)
    assert generate(shape) != generate(LoadShape(50, sizes={1: 1, 4: 1}, grouped=0.3, seed=1))


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("duration", DURATIONS)
def test_pods_come_in_time_and_run_about_as_long_as_asked(arrival: str, duration: str) -> None:
    pods = generate(LoadShape(4000, 86400, 100, arrival, duration, seed=3))
    assert len(pods) == len({pod.name for pod in pods}) == 4000
    assert [pod.at for pod in pods] == sorted(pod.at for pod in pods)
    assert pods[0].at >= 0
    assert pods[-1].at <= 86400
    assert sum(pod.runs for pod in pods) / 4000 == pytest.approx(100, rel=0.25)
    by_night = sum(pod.at < 7200 for pod in pods)
    assert by_night < 100 if arrival == "daily" else 200 < by_night < 500


def test_sizes_come_as_often_as_they_weigh_and_groups_come_together() -> None:
    pods = generate(LoadShape(3000, sizes={1: 3, 8: 1}, grouped=0.2, group_size=5, seed=9))
    assert sum(pod.devices == 1 for pod in pods) / 3000 == pytest.approx(0.75, abs=0.08)
    groups: dict[str, list[float]] = {}
    for pod in pods:
        if pod.group:
            groups.setdefault(pod.group, []).append(pod.at)
    assert groups
    assert all(len({*times}) == 1 for times in groups.values())
    assert {len(times) for times in groups.values()} <= {2, 3, 4, 5}


@pytest.mark.parametrize(
    "shape",
    [
        LoadShape(0),
        LoadShape(1, seconds=0),
        LoadShape(1, arrival="never"),
        LoadShape(1, duration="long"),
        LoadShape(1, sizes={}),
        LoadShape(1, sizes={1: 0}),
        LoadShape(1, grouped=2),
    ],
)
def test_a_shape_that_cannot_be_is_refused(shape: LoadShape) -> None:
    with pytest.raises(TraceError):
        generate(shape)
