"""Budgets in steps: an answer depends on the cluster and the claims, never on the clock, history or where it is computed."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.allocator import Budget, Fits, Index, Turn, allocate
from dray.allocator.budget import ATTEMPT_NODES, STEPS_PER_SECOND, UNLIMITED
from dray.allocator.outcome import Allocated, GaveUp
from dray.allocator.work import Work
from dray.api.types.resource import ResourceClaim
from dray.background.rotation import Rotation
from dray.background.worker import guarded
from tests.allocator.building import DRIVER, claim, class_, device, index_below, node, request, slice_, slowly

LONG = slowly(index_below(3), 30)


def packing(*sizes: int) -> ResourceClaim:
    """Groups of devices, each within one root."""
    requests = [request(f"r{at}", size) for at, size in enumerate(sizes)]
    constraints = [{"requests": [f"r{at}"], "matchAttribute": f"{DRIVER}/root"} for at in range(len(sizes))]
    return claim("packing", *requests, constraints=constraints)


HARD = packing(3, 3, 2, 2, 3)
COSTLY = claim("costly", request("r", 2, LONG))


def cluster(nodes: int = 6) -> Index:
    """Every node has other devices: roots of 5 and 6 devices, one device less on each next node."""
    index = Index(defers=True)
    index.upsert_class(class_("any"))
    for number in range(nodes):
        name = f"n{number}"
        index.upsert_node(node(name))
        found = [device(f"d{at}", index=at + number % 3, root=f"{number}-{at // 6}") for at in range(17 - number % 3)]
        index.upsert_slice(slice_(f"s{number}", found, pool=name, nodeName=name))
    return index


def elsewhere(work: Work) -> None:
    work.is_in_worker_process = True
    copy = pickle.loads(pickle.dumps(work))
    assert copy.run(lambda: False)
    work.accept(pickle.loads(pickle.dumps(copy.found())))
    work.is_in_worker_process = False


def in_turns(index: Index, wish: ResourceClaim, budget: Budget, steps: int = 200, among: int | None = None) -> object:
    """The answer in turns, in which other works are done in another process."""
    while True:
        fits = index.fits([wish], budget, among, Turn(steps))
        left = index.left_over()
        if not left.is_anything:
            return _seen(fits, among)
        for work in left.works:
            elsewhere(work)


def at_once(index: Index, wish: ResourceClaim, budget: Budget, among: int | None = None) -> object:
    return _seen(index.fits([wish], budget, among), among)


def _seen(fits: Fits, among: int | None) -> object:
    asked = -1 if among is None else among
    return fits.nodes & asked, fits.failing & asked, fits.undecided, fits.beyond


BUDGETS = [
    UNLIMITED,
    Budget(60),
    Budget(400),
    Budget(100, 300),
    Budget(600, 1200),
    Budget(600, 1200, 200),
    Budget(4000, 5000, 300),
    Budget(100_000, 600_000, 10_000),
]


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading of a clock is later than the last by anything up to a minute."""
    chance, offset = random.Random(7), [0.0]

    def jumpy(read: Callable[[], float]) -> Callable[[], float]:
        def reading() -> float:
            offset[0] += chance.choice((0.0, 0.05, 1.0, 60.0))
            return read() + offset[0]

        return reading

    for name in ("monotonic", "perf_counter", "thread_time", "process_time", "time"):
        monkeypatch.setattr(time, name, jumpy(getattr(time, name)))


@pytest.mark.parametrize("wish", [HARD, COSTLY])
def test_pauses_turns_and_processes_do_not_change_an_answer(wish: ResourceClaim, jumping: None) -> None:
    for budget in BUDGETS:
        expected = at_once(cluster(), wish, budget)
        for steps in (1, 7, 200):
            assert in_turns(cluster(), wish, budget, steps) == expected, (budget, steps)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(BUDGETS), st.lists(st.tuples(st.sampled_from(BUDGETS), st.integers(1, 63)), max_size=4), st.data()
)
def test_what_was_asked_before_does_not_change_an_answer(
    budget: Budget, before: list[tuple[Budget, int]], data: st.DataObject
) -> None:
    wish = data.draw(st.sampled_from([HARD, COSTLY]))
    index, among = cluster(), data.draw(st.integers(1, 63))
    for other, nodes in before:
        in_turns(index, wish, other, 50, nodes)
    assert in_turns(index, wish, budget, 50, among) == at_once(cluster(), wish, budget, among)


def test_each_node_has_its_budget_and_nodes_beyond_the_total_are_not_looked_at() -> None:
    wish = COSTLY
    alone = [cluster().fits([wish], Budget(400), 1 << number).undecided for number in range(6)]
    assert alone == [1 << number for number in range(6)]
    fits = cluster().fits([wish], Budget(600, 600))
    assert (sorted(fits), fits.undecided, fits.beyond) == (["n0", "n1"], 0b111100, 0b111100)
    assert not cluster().fits([wish], Budget(600)).undecided


def test_a_question_ends_soon_after_a_node_fits() -> None:
    fits = cluster().fits([COSTLY], Budget(600, 600_000, 100))
    assert (sorted(fits), fits.beyond) == (["n0"], 0b111110)


@pytest.mark.parametrize("times", [1, 3])
def test_what_nodes_have_in_common_is_charged_once_and_what_is_gone_not_at_all(times: int) -> None:
    index = Index()
    index.upsert_class(class_("any"))
    for number in range(50 * times):
        name = f"n{number % 50}"
        index.upsert_node(node(name))
        found = [device(f"d{at}", index=at, root=number // 50) for at in range(17)]
        index.upsert_slice(slice_(f"s{name}", found, pool=name, nodeName=name))
        if number % 50 == 49:
            index.fits([COSTLY], Budget(600, 600))
    assert len(index.fits([COSTLY], Budget(600, 600))) == 50


def test_more_steps_find_what_fewer_did_not() -> None:
    found = [device(f"d{at}", index=at, root=at // 6) for at in range(17)]
    outcomes = [
        allocate(node(), [HARD], [class_("any")], [slice_("s", found)], steps=steps) for steps in (1, 20, 60, 100_000)
    ]
    assert [type(outcome) for outcome in outcomes] == [GaveUp, GaveUp, GaveUp, Allocated]


def test_seconds_become_steps_at_one_rate() -> None:
    budget = Budget.of(10.0)
    assert budget.node == 10 * STEPS_PER_SECOND
    assert budget.total == ATTEMPT_NODES * budget.node
    assert Budget.of(0.0) == UNLIMITED
    assert Budget.of(1.0, per_node=True) == Budget(STEPS_PER_SECOND)
    assert budget.thorough() == Budget(budget.node, budget.total)


class Waiting:
    """Lets a work be interrupted at chosen questions: it waits there while another thread has its turn."""

    def __init__(self, after: list[int]) -> None:
        self._after = set(after)
        self._asked = 0

    def __call__(self) -> bool:
        self._asked += 1
        if self._asked in self._after:
            other = threading.Thread(target=lambda: None)
            other.start()
            other.join()
        return False


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 60), max_size=8), st.sampled_from([HARD, packing(3, 3, 3, 2), COSTLY]), st.data())
def test_splitting_a_work_anywhere_finds_the_same(after: list[int], wish: ResourceClaim, data: st.DataObject) -> None:
    """In turns of any length: with two computations, each is stopped in the middle of a search or an expression."""
    works: list[list[Work]] = []
    for _ in range(2):
        index = cluster(1)
        index.fits([wish], Budget(data.draw(st.sampled_from([50, 3000, 100_000]))), turn=Turn())
        works.append([pickle.loads(pickle.dumps(work)) for work in index.left_over().works])
    for one, _ in zip(*works, strict=False):
        alone = pickle.loads(pickle.dumps(one))
        assert alone.run(lambda: False)
        split = pickle.loads(pickle.dumps(one))
        assert split.run(Waiting(after))
        assert split.found() == alone.found()
        resumed = pickle.loads(pickle.dumps(one))
        turns = iter([*after, *[1 << 30] * 100])
        while not resumed.run(_asking(next(turns))):
            pass
        assert resumed.found() == alone.found()


def _asking(questions: int) -> Callable[[], bool]:
    left = [questions]

    def interrupt() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return interrupt


@settings(deadline=None, max_examples=10)
@given(st.integers(2, 5))
def test_works_that_take_turns_find_the_same_as_alone(number: int) -> None:
    index = cluster(1)
    index.fits([COSTLY], turn=Turn())
    (work,) = index.left_over().works
    alone = pickle.loads(pickle.dumps(work))
    alone.run(lambda: False)
    rotation, copies = Rotation(), [pickle.loads(pickle.dumps(work)) for _ in range(number)]
    for at, copy in enumerate(copies):
        rotation.add(at, guarded(copy.compute), ("searches", "", at))
    outcomes = [rotation.next()[1] for _ in copies]
    assert [outcome.value for outcome in outcomes] == [alone.found()] * number
