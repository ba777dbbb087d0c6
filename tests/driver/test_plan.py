"""Which writes bring a pool from what is published to what should be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import names
from dray.api.errors import BadRequest
from dray.api.types.resource import ResourceSlice
from dray.driver import Pool, device
from dray.driver.plan import Owner, SlicePlan, plan, slice_name, typed
from dray.driver.pools import specs

DRIVER, NODE, POOL = "d.example.com", "n", "p"
OWNER = Owner(NODE, "node-uid")


def wanted(count: int, prefix: str = "d") -> list[dict[str, Any]]:
    return specs(DRIVER, NODE, POOL, Pool([device(f"{prefix}{n}") for n in range(count)]))


def steps(parts: list[dict[str, Any]], existing: list[ResourceSlice], **more: Any) -> SlicePlan:
    return plan(parts, existing, NODE, OWNER, **more)


def applied(existing: list[ResourceSlice], done: SlicePlan) -> list[ResourceSlice]:
    """What the server has after the writes of a plan."""
    state = {one.metadata.name: one for one in existing}
    for one in done.delete:
        del state[one.metadata.name]
    for tree in (*done.update, *done.create):
        one = typed(tree)
        state[one.metadata.name] = one
    return [*state.values()]


def published(count: int, prefix: str = "d") -> list[ResourceSlice]:
    return applied([], steps(wanted(count, prefix), []))


def test_a_new_pool_starts_with_generation_one() -> None:
    first = published(200)
    assert [(one.spec.pool.generation, one.spec.pool.resourceSliceCount) for one in first] == [(1, 2), (1, 2)]
    assert all(one.metadata.ownerReferences[0].uid == "node-uid" for one in first)


def test_nothing_is_written_when_all_is_as_it_should_be() -> None:
    assert not steps(wanted(200), published(200))


def test_quantities_are_compared_by_value() -> None:
    def with_memory(text: str) -> list[dict[str, Any]]:
        return specs(DRIVER, NODE, POOL, Pool([device("d", capacity={"memory": text})]))

    existing = applied([], steps(with_memory("1Gi"), []))
    assert not steps(with_memory("1024Mi"), existing)
    assert steps(with_memory("1025Mi"), existing)


def test_one_changed_slice_keeps_the_generation() -> None:
    existing = published(10)
    done = steps(wanted(9), existing)
    assert (len(done.update), done.create, done.delete) == (1, [], [])
    assert applied(existing, done)[0].spec.pool.generation == 1


def test_two_changed_slices_raise_the_generation_of_all() -> None:
    existing = published(300)
    done = steps([*wanted(300, "e")[:2], wanted(300)[2]], existing)
    assert {one.spec.pool.generation for one in applied(existing, done)} == {2}
    assert len(done.update) == 3


def test_a_missing_slice_raises_the_generation_of_all() -> None:
    existing = published(200)
    done = steps(wanted(200), existing[1:])
    assert (len(done.update), len(done.create)) == (1, 1)
    assert {one.spec.pool.generation for one in applied(existing[1:], done)} == {2}


def test_a_pool_that_is_gone_has_all_its_slices_deleted() -> None:
    existing = published(200)
    assert steps([], existing).delete == existing


def test_slices_of_strangers_are_deleted_and_their_generation_is_reached() -> None:
    [one] = published(3)
    pool = msgspec.structs.replace(one.spec.pool, generation=9)
    stranger = msgspec.structs.replace(
        one,
        metadata=msgspec.structs.replace(one.metadata, name="stranger"),
        spec=msgspec.structs.replace(one.spec, pool=pool),
    )
    done = steps(wanted(3), [one, stranger])
    [after] = applied([one, stranger], done)
    assert done.delete == [stranger]
    assert after.spec.pool.generation >= 9


def test_updates_are_conditional_and_keep_what_others_noted() -> None:
    [one] = published(3)
    noted = msgspec.structs.replace(one.metadata, labels={"a": "b"}, resourceVersion="7", uid="u")
    [tree] = steps(wanted(2), [msgspec.structs.replace(one, metadata=noted)]).update
    assert tree["metadata"]["resourceVersion"] == "7"
    assert tree["metadata"]["labels"] == {"a": "b"}


def test_a_wrong_owner_is_put_right() -> None:
    [one] = published(3)
    orphan = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, ownerReferences=()))
    [tree] = steps(wanted(3), [orphan]).update
    assert tree["metadata"]["ownerReferences"][0]["name"] == NODE


def test_a_taint_keeps_the_date_that_the_server_gave_it() -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    parts = specs(DRIVER, NODE, POOL, Pool([device("d", taints=[taint])]))
    dated = specs(DRIVER, NODE, POOL, Pool([device("d", taints=[{**taint, "timeAdded": "2026-01-01T00:00:00Z"}])]))
    existing = applied([], steps(dated, []))
    assert not steps(parts, existing)
    changed = specs(DRIVER, NODE, POOL, Pool([device("d", {"a": 1}, taints=[taint])]))
    [tree] = steps(changed, existing).update
    assert tree["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z"


def test_what_the_server_left_out_is_not_sent_again() -> None:
    sent = specs(DRIVER, NODE, POOL, Pool([device("d", allowMultipleAllocations=True)]))
    [one] = applied([], steps(sent, []))
    [stored] = applied([], steps(specs(DRIVER, NODE, POOL, Pool([device("d")])), []))
    assert steps(sent, [stored])
    assert not steps(sent, [stored], accepted={stored.metadata.name: (one.spec, stored.spec)})


def test_devices_that_are_none_are_refused_by_name() -> None:
    [part] = specs(DRIVER, NODE, POOL, Pool([{"name": "d", "colour": "red"}]))
    with pytest.raises(BadRequest, match="colour"):
        steps([part], published(1))


@given(st.text("abcdefghij.-", min_size=1, max_size=253), st.integers(0, 2**20), st.text(min_size=1, max_size=253))
def test_names_of_slices_are_valid_whatever_the_node_is_called(node: str, index: int, pool: str) -> None:
    if [*names.subdomain(node)]:
        return
    name = slice_name(index, "driver.example.com", node, pool)
    assert not [*names.subdomain(name)]
    assert name != slice_name(index, "driver.example.com", node, pool + "x")


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_every_plan_ends_in_a_complete_pool_with_the_wanted_devices(counts: list[int]) -> None:
    state: list[ResourceSlice] = []
    for count in counts:
        parts = wanted(count)
        done = steps(parts, state)
        before = max((one.spec.pool.generation for one in state), default=0)
        state = applied(state, done)
        assert {(one.spec.pool.generation, one.spec.pool.resourceSliceCount) for one in state} == {
            (state[0].spec.pool.generation, len(state))
        }
        if len(done.update) + len(done.create) + len(done.delete) > 1:
            assert state[0].spec.pool.generation > before or not done.create
        assert sum(len(one.spec.devices) for one in state) == count
        assert not steps(parts, state), "and nothing is left to do"
