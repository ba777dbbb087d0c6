"""Sets of devices as integers."""

from hypothesis import given
from hypothesis import strategies as st

from dray.allocator.bits import above, first, lowest, members, position, positions, split, without

sets = st.integers(min_value=0, max_value=2**80)


@given(sets)
def test_members_come_in_order_and_make_up_the_set(bits: int) -> None:
    found = list(members(bits))
    assert sum(found) == bits
    assert found == sorted(found)
    assert [position(bit) for bit in found] == list(positions(bits))
    assert not bits or lowest(bits) == found[0]


@given(st.sets(st.integers(min_value=0, max_value=5000), max_size=40), st.integers(min_value=0, max_value=2000))
def test_the_positions_of_a_wide_set_come_in_order(few: set[int], many: int) -> None:
    places = few | set(range(700, 700 + many))
    assert list(positions(sum(1 << place for place in places))) == sorted(places)


@given(sets, st.integers(min_value=0, max_value=90))
def test_the_first_members_are_the_lowest(bits: int, count: int) -> None:
    assert list(members(first(bits, count))) == list(members(bits))[:count]


@given(sets, sets)
def test_a_set_without_another_has_the_other_members(bits: int, others: int) -> None:
    assert set(positions(without(bits, others))) == set(positions(bits)) - set(positions(others))


def test_what_lies_above_excludes_the_member_itself() -> None:
    assert above(0b100) & 0b11111 == 0b11000
    assert above(0) & 0b11111 == 0b11111


@given(sets, st.lists(sets, max_size=5))
def test_a_split_tells_apart_exactly_what_the_sets_tell_apart(everything: int, cuts: list[int]) -> None:
    groups = split(everything, cuts)
    assert sum(groups) == everything
    signatures = [{tuple(bool(bit & cut) for cut in cuts) for bit in members(group)} for group in groups]
    assert all(len(each) == 1 for each in signatures)
    assert len(set().union(*signatures)) == len(groups)
