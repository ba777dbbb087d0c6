"""Numbers for names: in their order, also for names that become known later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.recordings.anonymous import Aliases

NAMES = st.lists(st.text("abcz-0189", min_size=1, max_size=6), max_size=30)


@given(known=NAMES, later=NAMES)
def test_numbers_follow_the_order_of_the_names_whenever_those_become_known(known: list[str], later: list[str]) -> None:
    aliases = Aliases(known)
    given_first = {name: aliases(name) for name in known}
    given_later = {name: aliases(name) for name in later}
    names = sorted({*known, *later})
    assert [aliases(name) for name in names] == sorted(aliases(name) for name in names)
    assert len({aliases(name) for name in names}) == len(names)
    assert all(aliases(name) == alias for name, alias in {**given_first, **given_later}.items())


def test_names_that_count_up_between_others_keep_short_numbers() -> None:
    aliases = Aliases(["a", "z"])
    assert max(len(aliases(f"job-{number:05}")) for number in range(5000)) < 16
