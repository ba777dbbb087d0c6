"""The sorted keys of a collection against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from dray.store.keys import SortedKeys

names = st.text("ab/0.-", min_size=1, max_size=4).map("c/".__add__)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "list"]), names, st.sampled_from(["", "c/", "c/a/"])), max_size=60
)


@given(steps)
def test_ranges_hold_the_living_keys_in_order(steps: list[tuple[str, str, str]]) -> None:
    keys, alive = SortedKeys(), set[str]()
    for action, key, prefix in steps:
        if action == "add" and key not in alive:
            keys.add(key)
            alive.add(key)
        elif action == "remove" and key in alive:
            keys.remove(key)
            alive.remove(key)
        elif action == "list":
            wanted = sorted(k for k in alive if k.startswith(prefix) and k > key)
            found = keys.range(prefix, key)
            assert [k for k in found if k in alive] == wanted
            assert len(found) - keys.removed(prefix, key) == len(wanted)


def test_many_removed_keys_are_forgotten() -> None:
    keys = SortedKeys()
    everything = [f"pods/{n:05}" for n in range(5000)]
    for key in reversed(everything):
        keys.add(key)
    assert keys.range("pods/") == everything
    for key in everything[:4000]:
        keys.remove(key)
    assert keys.range("pods/") == everything[4000:]
    assert keys.removed("pods/") == 0


def test_when_nobody_lists_also_few_removed_keys_are_forgotten_if_they_are_most_of_all() -> None:
    keys = SortedKeys()
    everything = [f"pods/{n:05}" for n in range(200)]
    for key in everything:
        keys.add(key)
    assert keys.range("pods/") == everything
    for key in everything[:150]:
        keys.remove(key)
    assert len(keys.range("pods/")) == 200
    keys.forget_removed()
    assert keys.range("pods/") == everything[150:]
    assert keys.removed("pods/") == 0
