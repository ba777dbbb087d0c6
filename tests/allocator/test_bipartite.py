"""Matching: everybody gets what they ask for, or some ask together for more than there is."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dray.allocator.bipartite import Shortage, Wish, assign
from dray.allocator.bits import members

wishes = st.lists(st.builds(Wish, st.integers(0, 3), st.integers(0, 2**7 - 1)), max_size=4)


@given(wishes)
def test_an_assignment_grants_every_wish_once(asked: list[Wish]) -> None:
    given_ = assign(asked)
    if isinstance(given_, Shortage):
        needed = sum(asked[place].wanted for place in given_.wishes)
        union = 0
        for place in given_.wishes:
            union |= asked[place].devices
        assert needed > union.bit_count() or union & ~given_.devices == 0
        assert needed > given_.devices.bit_count()
        return
    for wish, devices in zip(asked, given_, strict=True):
        assert devices.bit_count() == wish.wanted
        assert devices & ~wish.devices == 0
    assert sum(given_) == sum(bit for devices in given_ for bit in members(devices))
    assert sum(devices.bit_count() for devices in given_) == sum(given_).bit_count()


@given(st.lists(st.integers(0, 2**5 - 1), max_size=4))
def test_a_shortage_is_reported_only_where_there_is_one(sets: list[int]) -> None:
    possible = any(len(set(choice)) == len(choice) for choice in product(*(list(members(each)) for each in sets)))
    assert isinstance(assign([Wish(1, each) for each in sets]), Shortage) != possible


def test_those_who_come_first_get_the_lowest_devices() -> None:
    assert assign([Wish(1, 0b111), Wish(2, 0b111)]) == [0b001, 0b110]
