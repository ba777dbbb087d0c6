"""Whom a pod that waits would preempt, and whether the end of others would disturb less."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec import convert

from dray.api.reasons.causes.taken import EndPods
from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PodGroup
from dray.inspect.explain import explain_group, explain_pod
from dray.inspect.explanation import PreemptionForecast
from dray.inspect.layout import text_of
from dray.inspect.preempting import forecast
from dray.inspect.snapshot import Snapshot
from tests import objects
from tests.core.preemption_cases import PREEMPTOR, Case, GangCase, random_case, random_gang_case


def least(case: Case, units: list[Any], fits: Callable[[set[str]], bool]) -> Iterator[tuple[int, ...]]:
    """What each set of victims disturbs with which the pod or the gang fits: tries every set."""
    for size in range(1, len(units) + 1):
        for chosen in map(list, itertools.combinations(units, size)):
            if fits({one.name for unit in chosen for one in unit}):
                yield case.rank((chosen, sum(case.violating(chosen).values())))[:-1]


def least_of(case: Case) -> tuple[int, ...] | None:
    found = (least(case, case.units(node), partial(case.fits, node)) for node in case.nodes)
    return min(itertools.chain(*found), default=None)


def gang_least_of(case: GangCase) -> tuple[int, ...] | None:
    units = {unit[0].name: unit for node in case.nodes for unit in case.units(node)}
    return min(least(case, sorted(units.values(), key=case._importance), case.gang_fits), default=None)


def told(case: Case, name: str) -> PreemptionForecast | None:
    snapshot = Snapshot.of(*case.objects())
    pod = snapshot.get(Pod, name, "default")
    assert pod is not None
    return forecast(snapshot, pod)


def ranked(case: Case, names: tuple[str, ...]) -> tuple[int, ...]:
    """What the end of these pods disturbs."""
    bare = {name.removeprefix("default/") for name in names}
    units = {unit[0].name: unit for node in case.nodes for unit in case.units(node)}
    chosen = [unit for unit in units.values() if {one.name for one in unit} <= bare]
    chosen.sort(key=case._importance)
    assert {one.name for unit in chosen for one in unit} == bare
    return case.rank((chosen, sum(case.violating(chosen).values())))[:-1]


def test_what_is_said_to_disturb_less_does_and_nothing_disturbs_less_than_that() -> None:
    chance, better, compared = random.Random(7), 0, 0
    while compared < 150:
        case = random_case(chance)
        if any(case.fits(node, ()) for node in case.nodes):
            continue
        found, best = told(case, PREEMPTOR), least_of(case)
        assert (found is None) == (best is None)
        if found is None or best is None:
            continue
        compared += 1
        own = ranked(case, found.victims)
        assert found.is_least == (own == best)
        if found.less:
            better += 1
            assert ranked(case, found.less) == best < own
    assert better >= 1


def test_the_same_of_gangs() -> None:
    chance, better, compared = random.Random(3), 0, 0
    while compared < 60:
        case = random_gang_case(chance)
        if case.gang_fits(()):
            continue
        found, best = told(case, "gang-0"), gang_least_of(case)
        assert (found is None) == (best is None)
        if found is None or best is None:
            continue
        compared += 1
        own = ranked(case, found.victims)
        assert found.is_least == (own == best)
        if found.less:
            better += 1
            assert ranked(case, found.less) == best < own
    assert better >= 1


# What people read


def cpus(name: str, cpu: int, priority: int = 0, node: str = "n", start: int = 0, **spec: Any) -> Pod:
    status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{start:02}Z"} if node else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    meta = {"uid": f"uid-{name}"}
    tree = objects.pod(
        name,
        namespace="default",
        node=node,
        metadata=meta,
        status=status,
        containers=[container],
        priority=priority,
        **spec,
    )
    return convert(tree, Pod)


def crowded() -> list[Any]:
    """The rule gives the oldest pod back first, and then two others must end for 2 CPUs."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    node = convert(objects.node("n", labels={"kubernetes.io/hostname": "n"}, allocatable=room), Node)
    return [node, cpus("large", 2, start=1), cpus("small-1", 1, start=2), cpus("small-2", 1, start=3)]


def test_explain_says_who_would_be_preempted_and_who_might_be_instead() -> None:
    found = explain_pod(Snapshot.of(*crowded(), cpus("p", 2, priority=9, node="")), "default", "p")
    assert found.preemption == PreemptionForecast(
        ("default/small-1", "default/small-2"), "n", less=("default/large",), less_node="n"
    )
    text = text_of(found)
    assert "it preempts default/small-1, default/small-2 on node n" in text
    assert "the end of default/large on node n would disturb less" in text


def test_explain_says_so_of_a_gang() -> None:
    tree = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}}
    group = convert({**tree, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 9}}, PodGroup)
    gang = [cpus(f"g-{n}", 2, 9, "", schedulingGroup={"podGroupName": "g"}) for n in range(2)]
    found = explain_group(Snapshot.of(*crowded(), group, *gang), "default", "g")
    assert found.preemption is not None
    assert found.preemption.is_least
    assert {*found.preemption.victims} == {"default/large", "default/small-1", "default/small-2"}
    assert "no other choice of victims disturbs less" in text_of(found)


@pytest.mark.parametrize(("least", "suggested"), [(1, ("pod other",)), (2, ("pod other", "pod small"))])
def test_what_is_suggested_for_a_gang_makes_room_for_all_that_it_needs(least: int, suggested: tuple[str, ...]) -> None:
    node = convert(objects.node("n", allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"}), Node)
    tree = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}}
    group = convert({**tree, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}}, PodGroup)
    gang = [cpus(f"g-{n}", 2, node="", schedulingGroup={"podGroupName": "g"}) for n in range(2)]
    found = explain_group(Snapshot.of(node, cpus("small", 2), cpus("other", 2), group, *gang), "default", "g")
    assert [one.pods for one in found.help if isinstance(one, EndPods)] == [suggested]


@pytest.mark.parametrize(
    "pod", [cpus("p", 2, node=""), cpus("p", 2, 9, "", preemptionPolicy="Never"), cpus("p", 5, 9, "")]
)
def test_explain_names_nobody_where_nobody_would_be_preempted(pod: Pod) -> None:
    assert explain_pod(Snapshot.of(*crowded(), pod), "default", "p").preemption is None
