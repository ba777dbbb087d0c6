"""An index that defers: what takes long is left over, can be done in another process, and then the answer is there."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.allocator import Index, Turn
from dray.allocator.budget import QUICK_SEARCH
from dray.allocator.work import Work
from dray.api.types.resource import ResourceClaim
from tests.allocator.building import DRIVER, claim, class_, device, index_below, node, request, slice_, slowly

LONG = slowly(index_below(3), 30)


def cluster(devices: int, *, defers: bool = True) -> Index:
    index = Index(defers=defers)
    index.upsert_class(class_("any"))
    index.upsert_node(node("n"))
    found = [device(f"d{at}", index=at, root=at // 21) for at in range(devices)]
    index.upsert_slice(slice_("s", found, nodeName="n"))
    return index


def packing(size: int = 4, groups: int = 3) -> ResourceClaim:
    """Groups within a root; there is room where it is asked for."""
    requests = [request(f"r{at}", size) for at in range(groups)]
    constraints = [{"requests": [f"r{at}"], "matchAttribute": f"{DRIVER}/root"} for at in range(groups)]
    return claim("packing", *requests, constraints=constraints)


def elsewhere(work: Work) -> None:
    """Do the work in a copy, as another process would, and bring home what was found."""
    work.is_in_worker_process = True
    copy = pickle.loads(pickle.dumps(work))
    assert copy.run(lambda: False)
    work.accept(pickle.loads(pickle.dumps(copy.found())))
    work.is_in_worker_process = False


def test_an_expensive_selector_is_left_over_and_the_answer_comes_with_its_work() -> None:
    index, wish = cluster(5), claim("wish", request("r", 3, LONG))
    assert index.fits([wish], turn=Turn()).undecided
    works, is_hurried = index.left_over()
    assert len(works) == 1
    assert not is_hurried
    elsewhere(works[0])
    assert list(index.fits([wish], turn=Turn())) == ["n"]
    assert index.left_over() == ((), False)


def test_an_index_that_defers_does_not_look_at_work_that_is_in_worker_process() -> None:
    index, wish = cluster(5), claim("wish", request("r", 1, LONG))
    index.fits([wish], turn=Turn())
    (work,) = index.left_over().works
    work.is_in_worker_process = True
    assert index.fits([wish], turn=Turn()).undecided
    assert index.left_over().works == (work,)


def test_a_search_that_is_not_over_quickly_is_left_over() -> None:
    index = cluster(63)
    assert index.fits([packing(5, 6)], turn=Turn()).undecided
    (work,) = index.left_over().works
    elsewhere(work)
    assert work.steps > QUICK_SEARCH
    assert list(index.fits([packing(5, 6)], turn=Turn())) == ["n"]


def test_without_a_turn_nothing_is_deferred() -> None:
    assert list(cluster(5).fits([claim("wish", request("r", 3, LONG))])) == ["n"]


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 6))
def test_the_answer_is_that_of_an_index_that_does_not_defer(devices: int, wanted: int, size: int) -> None:
    for wish in (claim("wish", request("r", wanted, LONG)), packing(size)):
        index = cluster(devices)
        for _ in range(5):
            fits = index.fits([wish], turn=Turn())
            for work in index.left_over().works:
                elsewhere(work)
        assert not fits.undecided
        assert list(fits) == list(cluster(devices, defers=False).fits([wish]))
