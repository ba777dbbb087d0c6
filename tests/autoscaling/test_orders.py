"""Nodes on order, and groups that do not deliver."""

from __future__ import annotations

from dray.api.types.core import Node, NodeSpec
from dray.api.types.meta import ObjectMeta
from dray.autoscaling.backoff import NodeGroupBackoff
from dray.autoscaling.orders import Orders, OrderState
from dray.autoscaling.provider import GroupStatus, Instance, InstanceState


def status(target: int, *instances: Instance) -> GroupStatus:
    return GroupStatus("a", 0, 9, target, instances)


def creating(name: str, error: str = "") -> Instance:
    return Instance(name, InstanceState.CREATING, error)


def provided_node(provider_id: str) -> Node:
    return Node(metadata=ObjectMeta(name=provider_id), spec=NodeSpec(providerID=provider_id))


def test_an_order_counts_until_its_nodes_are_there() -> None:
    orders = Orders(100)
    orders.placed("a", 0)
    assert orders.judge(status(2, creating("x"), creating("y")), [], 10) == OrderState(2)
    assert orders.judge(status(2, Instance("x"), creating("y")), [provided_node("x")], 20) == OrderState(1)
    assert orders.judge(
        status(2, Instance("x"), Instance("y")), [provided_node("x"), provided_node("y")], 30
    ) == OrderState(0, delivered=True)
    assert orders.judge(
        status(2, Instance("x"), Instance("y")), [provided_node("x"), provided_node("y")], 40
    ) == OrderState(0)


def test_an_order_fails_when_nothing_comes_for_too_long() -> None:
    orders = Orders(100)
    orders.placed("a", 0)
    first = status(2, creating("x"), creating("y"))
    assert orders.judge(first, [], 99).open == 2
    second = status(2, Instance("x"), creating("y"))
    assert orders.judge(second, [provided_node("x")], 99).open == 1  # one came, so the other has its time from now on
    assert orders.judge(second, [provided_node("x")], 198).open == 1
    late = orders.judge(second, [provided_node("x")], 199)
    assert (late.open, late.failed) == (0, ("y",))


def test_what_the_provider_gave_up_fails_at_once() -> None:
    orders = Orders(100)
    found = orders.judge(status(2, creating("x", "no power"), creating("y")), [], 1)
    assert (found.open, found.failed, found.why) == (1, ("x",), "no power")


def test_instances_that_are_being_deleted_are_no_failed_orders() -> None:
    orders = Orders(100)
    going = [Instance(name, InstanceState.DELETING, error) for name, error in (("old", ""), ("bad", "no power"))]
    found = status(1, creating("x"), *going)
    assert orders.judge(found, [], 0) == OrderState(1)
    late = orders.judge(found, [], 100)
    assert (late.open, late.failed) == (0, ("x",))


def test_a_group_is_left_alone_longer_after_each_failure_until_it_delivers() -> None:
    backoff = NodeGroupBackoff(10)
    assert backoff.fail("a", 0) == 10
    assert (backoff.closed(9), backoff.closed(10)) == (["a"], [])
    assert backoff.fail("a", 10) == 20
    assert backoff.closed(29) == ["a"]
    backoff.succeed("a")
    assert backoff.closed(11) == []
    assert backoff.fail("a", 40) == 10
