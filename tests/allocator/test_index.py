"""The index answers as the pure function does, whatever happened before, and forgets nothing but what changed."""

from __future__ import annotations

import gc
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.allocator import Allocated, AllocationOutcome, Budget, Failed, Index, Turn, Unallocatable, allocate
from dray.allocator.content import DeviceList
from dray.api.allocations import DeviceId
from dray.api.reasons.devices import InputCode, InputProblem
from dray.api.types.resource import ResourceClaim, ResourceSlice
from tests.allocator.building import (
    ANY,
    DRIVER,
    GPU,
    Instance,
    alternatives,
    claim,
    class_,
    device,
    index_below,
    node,
    random_instance,
    request,
    slice_,
    slowly,
    spec,
)

ONE = claim("one", request("r"))


def filled(instance: Instance) -> Index:
    index = Index(instance.features)
    for each in instance.classes:
        index.upsert_class(each)
    for part in instance.slices:
        index.upsert_slice(part)
    index.upsert_node(instance.node)
    index.take(instance.taken)
    return index


def same(one: AllocationOutcome, other: AllocationOutcome) -> bool:
    if isinstance(one, Unallocatable) and isinstance(other, Unallocatable):
        return one.explain() == other.explain()
    return one == other


def cluster(nodes: int, devices: int = 2) -> Index:
    index = Index()
    index.upsert_class(ANY)
    index.upsert_class(GPU)
    for at in range(nodes):
        index.upsert_node(node(f"n{at}", zone="a" if at % 2 else "b"))
        local = [device(f"d{place}", index=place) for place in range(devices)]
        index.upsert_slice(slice_(f"s{at}", local, pool=f"n{at}", nodeName=f"n{at}"))
    return index


def local(at: int, place: int) -> DeviceId:
    return DeviceId(DRIVER, f"n{at}", f"d{place}")


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False).map(random_instance), st.randoms(use_true_random=False))
def test_answers_equal_those_of_the_pure_function_as_devices_come_and_go(instance: Instance, random: Random) -> None:
    index = filled(instance)
    everything = [
        (part.spec.driver, part.spec.pool.name, offered.name)
        for part in instance.slices
        for offered in part.spec.devices
    ]
    taken = set(instance.taken)
    for _ in range(4):
        expected = allocate(*instance._replace(taken=sorted(taken)))
        assert same(index.allocate("n", instance.claims), expected)
        fits = index.fits(instance.claims)
        assert ("n" in fits) == isinstance(expected, Allocated)
        assert bool(fits.failing) == isinstance(expected, Failed)
        if isinstance(expected, Allocated):
            assert fits.score("n") == expected.score
        some = random.sample(everything, min(len(everything), 2))
        if random.choice([True, False]):
            index.take(some)
            taken.update(some)
        else:
            index.release(some)
            taken.difference_update(some)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False).map(random_instance))
def test_releasing_restores_the_index_exactly(instance: Instance) -> None:
    index = filled(instance)
    before, fitted = index.allocate("n", instance.claims), list(index.fits(instance.claims))
    if isinstance(before, Allocated):
        devices = [each for own in before.devices for each in own]
        taken = index.taken
        index.take(devices)
        index.fits(instance.claims)
        index.release(devices)
        assert index.taken == taken
    assert same(index.allocate("n", instance.claims), before)
    assert list(index.fits(instance.claims)) == fitted


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False).map(random_instance), st.randoms(use_true_random=False))
def test_many_nodes_are_answered_as_each_would_be_alone(instance: Instance, random: Random) -> None:
    nodes = [node(f"n{at}", zone=random.choice("ab")) for at in range(3)]
    slices = [_placed(part, random) for part in instance.slices]
    index = filled(instance._replace(slices=slices, node=nodes[0]))
    for each in nodes[1:]:
        index.upsert_node(each)
    taken = set(instance.taken)
    everything = [
        (part.spec.driver, part.spec.pool.name, offered.name) for part in slices for offered in part.spec.devices
    ]
    for _ in range(4):
        fits = index.fits(instance.claims)
        for number, each in enumerate(nodes):
            alone = allocate(*instance._replace(slices=slices, node=each, taken=sorted(taken)))
            assert same(index.allocate(each.metadata.name, instance.claims), alone)
            assert (each.metadata.name in fits) == isinstance(alone, Allocated)
            assert bool(fits.failing >> number & 1) == isinstance(alone, Failed)
            assert fits.score(each.metadata.name) == (alone.score if isinstance(alone, Allocated) else 0)
        some = random.sample(everything, min(len(everything), 2))
        (index.take if random.choice([True, False]) else index.release)(some)
        taken = set(index.taken)
        if random.choice([True, False]):
            moved = random.randrange(len(slices))
            slices[moved] = _placed(slices[moved], random)
            index.upsert_slice(slices[moved])


def _placed(part: ResourceSlice, random: Random) -> ResourceSlice:
    """The slice on a node of its own, on all nodes, on those of a zone, or with a place for each device."""
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    tree = msgspec.to_builtins(part)
    kinds = [{"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True}, {"nodeSelector": zone}]
    for placed in (tree["spec"], *tree["spec"]["devices"]):
        for name in ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"):
            placed.pop(name, None)
    if random.randrange(3):
        tree["spec"] |= random.choice(kinds)
    else:
        tree["spec"]["perDeviceNodeSelection"] = True
        for each in tree["spec"]["devices"]:
            each |= random.choice(kinds)
    return msgspec.convert(tree, ResourceSlice)


def test_a_node_stops_fitting_when_its_last_device_is_taken() -> None:
    index = cluster(3, devices=1)
    assert list(index.fits([ONE])) == ["n0", "n1", "n2"]
    index.take([local(1, 0)])
    assert list(index.fits([ONE])) == ["n0", "n2"]
    index.release([local(1, 0)])
    assert len(index.fits([ONE])) == 3


def test_taking_twice_is_taking_once() -> None:
    index = cluster(1, devices=1)
    index.take([local(0, 0), local(0, 0)])
    index.release([local(0, 0)])
    assert "n0" in index.fits([ONE])


def test_a_device_taken_before_it_is_published_stays_taken() -> None:
    index = Index()
    index.upsert_class(ANY)
    index.take([local(0, 0)])
    index.upsert_node(node("n0"))
    index.upsert_slice(slice_("s0", [device("d0")], pool="n0", nodeName="n0"))
    assert not index.fits([ONE])


def test_a_network_attached_device_is_taken_for_all_nodes() -> None:
    index = cluster(4)
    index.upsert_slice(slice_("net", [device("x0")], pool="net", driver="net.example.org", allNodes=True))
    wish = claim("net", request("r", 1, 'device.driver == "net.example.org"'))
    assert len(index.fits([wish])) == 4
    index.take([("net.example.org", "net", "x0")])
    assert len(index.fits([wish])) == 0
    assert len(index.fits([ONE])) == 4


def test_claims_for_different_devices_are_answered_together() -> None:
    index = cluster(3, devices=1)
    index.upsert_slice(slice_("net", [device("x0")], pool="net", driver="net.example.org", allNodes=True))
    both = [claim("a", request("r", 1, cls="gpu")), claim("b", request("r", 1, 'device.driver == "net.example.org"'))]
    assert len(index.fits(both)) == 3
    index.take([local(1, 0)])
    assert list(index.fits(both)) == ["n0", "n2"]
    index.take([("net.example.org", "net", "x0")])
    assert list(index.fits(both)) == []
    index.release([("net.example.org", "net", "x0")])
    assert list(index.fits(both)) == ["n0", "n2"]


def test_an_answer_is_the_same_object_until_it_changes() -> None:
    index = cluster(2)
    first = index.fits([ONE])
    index.take([local(0, 0)])
    assert index.fits([claim("other", request("r"))]) is first  # one device is left: the node still fits
    index.take([local(0, 1)])
    second = index.fits([ONE])
    assert (list(first), list(second)) == (["n0", "n1"], ["n1"])
    less = second.without(index.number("n1"))
    assert (list(less), list(second)) == ([], ["n1"])
    assert less.score("n1") == second.score("n1")
    index.release([local(0, 0)])
    assert list(index.fits([ONE])) == ["n0", "n1"]


def test_claims_for_the_same_device_do_not_both_fit() -> None:
    index = cluster(2, devices=2)
    index.take([local(1, 0)])
    assert list(index.fits([ONE, ONE])) == ["n0"]


def test_no_claims_fit_everywhere() -> None:
    assert len(cluster(3).fits([])) == 3


def test_labels_decide_who_sees_a_slice() -> None:
    index = cluster(4)
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    index.upsert_slice(slice_("net", [device("x0")], pool="net", driver="net.example.org", nodeSelector=zone))
    wish = claim("net", request("r", 1, 'device.driver == "net.example.org"'))
    assert list(index.fits([wish])) == ["n1", "n3"]
    index.upsert_node(node("n0", zone="a"))
    index.upsert_node(node("n1", zone="b"))
    assert list(index.fits([wish])) == ["n0", "n3"]


def test_slices_nodes_and_classes_can_go() -> None:
    index = cluster(3)
    wish = claim("w", request("r", 1, cls="gpu"))
    assert len(index.fits([wish])) == 3
    index.remove_slice("s0")
    index.remove_node("n1")
    assert list(index.fits([wish])) == ["n2"]
    assert index.nodes == ("n0", "n2")
    index.remove_class("gpu")
    fits = index.fits([wish])
    assert list(fits.names(fits.failing)) == ["n0", "n2"]
    outcome = index.allocate("n2", [wish])
    assert isinstance(outcome, Failed)
    assert (outcome.problem.code, outcome.problem.subject) == (InputCode.CLASS_NOT_FOUND, "gpu")


def test_a_number_that_a_node_leaves_is_used_again() -> None:
    index = cluster(2, devices=1)
    index.take([local(1, 0)])
    assert list(index.fits([ONE])) == ["n0"]
    index.remove_node("n0")
    index.upsert_node(node("n9"))
    assert list(index.fits([ONE])) == []
    index.upsert_slice(slice_("s9", [device("d0")], pool="n9", nodeName="n9"))
    assert list(index.fits([ONE])) == ["n9"]


def test_a_changed_class_is_noticed() -> None:
    index = cluster(1)
    wish = claim("w", request("r", 1, cls="gpu"))
    assert index.fits([wish])
    index.upsert_class(class_("gpu", "false"))
    assert not index.fits([wish])


def test_a_pool_that_is_being_replaced_offers_nothing() -> None:
    index = cluster(1)
    index.upsert_slice(slice_("s0-new", [device("d7")], pool="n0", nodeName="n0", generation=2, count=2))
    assert not index.fits([ONE])
    index.upsert_slice(slice_("s0-newer", [device("d8")], pool="n0", nodeName="n0", generation=2, count=2))
    outcome = index.allocate("n0", [ONE])
    assert isinstance(outcome, Allocated)
    assert outcome.devices == ((DeviceId(DRIVER, "n0", "d7"),),)


def test_the_score_tells_which_alternative_a_node_would_give() -> None:
    index = cluster(2)
    wish = claim("w", alternatives("r", both=spec(2), one=spec(1)))
    index.take([local(1, 0)])
    fits = index.fits([wish])
    assert (fits.score("n0"), fits.score("n1"), fits.score("nowhere")) == (8, 7, 0)


def test_nodes_with_equal_devices_share_the_work() -> None:
    index = cluster(50)
    index.fits([claim("w", request("r", 1, index_below(1)))])
    layouts = {id(index._inventory.node_devices(at).view.layout) for at in range(50)}
    assert len(layouts) == 1


def test_news_that_change_nothing_cost_nothing() -> None:
    index = cluster(3)
    index.fits([ONE])
    before = len(index._inventory.log)
    index.upsert_node(node("n1", zone="a"))
    index.upsert_slice(slice_("s1", [device("d0", index=0), device("d1", index=1)], pool="n1", nodeName="n1"))
    assert len(index._inventory.log) == before
    index.upsert_node(node("n1", zone="c"))
    assert len(index._inventory.log) > before


def test_an_unknown_node_is_an_error_of_that_node_only() -> None:
    outcome = Index().allocate("nowhere", [ONE])
    assert outcome == Failed(InputProblem(InputCode.UNKNOWN_NODE, subject="nowhere", node_only=True))


def test_old_plans_and_old_changes_are_forgotten_without_harm() -> None:
    index = cluster(2, devices=1)
    asked: list[ResourceClaim] = [claim(f"c{at}", request(f"r{at}")) for at in range(300)]
    for each in asked:
        assert len(index.fits([each])) == 2
    for _ in range(5000):
        index.take([local(0, 0)])
        index.release([local(0, 0)])
    index.take([local(0, 0)])
    for each in (asked[-1], asked[0], ONE):
        assert list(index.fits([each])) == ["n1"]


def test_contents_that_were_replaced_are_forgotten() -> None:
    index = cluster(3)
    for number in range(1000):
        index.upsert_slice(slice_("s0", [device("d0", index=number)], pool="n0", nodeName="n0"))
        assert len(index.fits([ONE])) == 3
    gc.collect()
    assert sum(isinstance(found, DeviceList) for found in gc.get_objects()) < 300


def slow_and_quick(slow: int = 128) -> Index:
    """Node n0 with many devices, n1 with two; all of them differ."""
    index = Index()
    index.upsert_class(ANY)
    for at, number in enumerate((slow, 2)):
        devices = [device(f"d{place}", index=1000 * at + place) for place in range(number)]
        index.upsert_node(node(f"n{at}"))
        index.upsert_slice(slice_(f"s{at}", devices, pool=f"n{at}", nodeName=f"n{at}"))
    return index


SLOW = claim("slow", request("r", 1, slowly(index_below(9999))))


def test_only_nodes_that_come_into_question_are_looked_at() -> None:
    index = slow_and_quick()
    fits = index.fits([SLOW], among=0b10)
    assert (list(fits), fits.undecided) == (["n1"], 0)
    fits = index.fits([SLOW, ONE, ONE], among=0b10)
    assert (list(fits), fits.undecided) == ([], 0)  # n1 has two devices only


def test_a_slow_node_does_not_take_the_steps_of_the_others() -> None:
    fits = slow_and_quick(slow=128).fits([SLOW], Budget(1000))
    assert (list(fits), fits.undecided) == (["n1"], 0b01)


def test_who_asks_again_gets_on() -> None:
    index, wish = slow_and_quick(slow=10), claim("wish", request("r", 1, index_below(9999)))
    undecided = []
    while not undecided or undecided[-1]:
        undecided.append(index.fits([wish], turn=Turn(2)).undecided)  # enough for one device
    assert undecided == [*[0b11] * 9, *[0b10] * 2, 0]
    assert list(index.fits([wish])) == ["n0", "n1"]


def test_what_happens_to_devices_that_were_not_judged_yet_is_not_missed() -> None:
    index = slow_and_quick(slow=3)
    index.fits([SLOW], among=0b10)
    index.take([local(0, place) for place in range(3)])
    assert list(index.fits([SLOW])) == ["n1"]
    index.release([local(0, 1)])
    index.fits([SLOW], among=0b10)
    assert list(index.fits([SLOW])) == ["n0", "n1"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_device_that_slices_describe_in_two_ways_is_what_the_node_sees(order: tuple[int, int]) -> None:
    slices = (
        slice_("a", [device("d", model="far")], nodeName="other"),
        slice_("b", [device("d", model="near")], nodeName="n"),
    )
    index = Index()
    index.upsert_node(node("n"))
    for at in order:
        index.upsert_slice(slices[at])
    id_ = DeviceId(DRIVER, "p", "d")
    seen, first = index.device(id_, "n"), index.device(id_)
    assert seen is not None
    assert first is not None
    assert (seen.attributes["model"].string, first.attributes["model"].string) == ("near", "far")


def test_a_question_that_nobody_asked_while_much_happened_is_answered_by_what_is_now() -> None:
    index = cluster(2, devices=1)
    often, seldom = claim("often", request("r0")), claim("seldom", request("r1"))
    for asked in (often, seldom):
        assert len(index.fits([asked])) == 2
    index.take([local(1, 0)])
    for _ in range(5000):
        index.take([local(0, 0)])
        index.release([local(0, 0)])
    for asked in (often, seldom):
        assert list(index.fits([asked])) == ["n0"]
