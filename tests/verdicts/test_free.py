"""The one definition of a free device says what the allocator does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dray.allocator import Allocated, Features, allocate
from dray.api.allocations import DeviceId, taken_by_all
from dray.api.availability import ClusterPools, DeviceHolders, DeviceState, PoolUse
from dray.api.types.core import Node
from dray.api.types.resource import DeviceAttribute, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from tests import objects
from tests.inspect.clusters import GATES, HOST, NODES, ZONE, Objects, device_cluster

PROBE = "probe.example.com"
FEATURES = Features.from_gates(GATES.enabled)
CLASS = msgspec.convert(objects.device_class("every"), DeviceClass)
# Every device of a cluster can be reached from one of these.
REACHING = [
    msgspec.convert({"metadata": {"name": name, "labels": {HOST: name, ZONE: "a"}}}, Node)
    for name in (*NODES, "shared")
]


def of_type(cluster: Objects, type_: type[Any]) -> list[Any]:
    return [one for one in cluster if type(one) is type_]


def named(piece: ResourceSlice) -> ResourceSlice:
    """The slice with the name of each device in an attribute, so that a claim can ask for this one."""
    devices = tuple(
        replace(one, attributes={**one.attributes, f"{PROBE}/name": DeviceAttribute(string=one.name)})
        for one in piece.spec.devices
    )
    return replace(piece, spec=replace(piece.spec, devices=devices))


def asking_for(id_: DeviceId) -> ResourceClaim:
    expression = (
        f'device.driver == "{id_.driver}" && "{PROBE}" in device.attributes && '
        f'device.attributes["{PROBE}"].name == "{id_.device}"'
    )
    request = objects.request("r", "every", selectors=[expression], allocationMode="ExactCount", count=1)
    return msgspec.convert(objects.claim("c", request, namespace="default"), ResourceClaim)


def can_be_had(id_: DeviceId, slices: list[ResourceSlice], claims: list[ResourceClaim]) -> bool:
    """Whether the allocator gives this device to a claim that asks for it alone, on some node."""
    own = [one for one in slices if (one.spec.driver, one.spec.pool.name) == id_[:2]]
    taken = taken_by_all(claims)
    for node in REACHING:
        found = allocate(node, [asking_for(id_)], [CLASS], own, taken.devices, FEATURES, None, taken.shares)
        if isinstance(found, Allocated):
            return True
    return False


def differences(seed: int, found: Counter[DeviceState]) -> list[str]:
    cluster = device_cluster(seed, "1")
    claims, rules = of_type(cluster, ResourceClaim), of_type(cluster, DeviceTaintRule)
    slices = [named(one) for one in of_type(cluster, ResourceSlice)]
    pools, holders = ClusterPools(slices, rules), DeviceHolders(claims)
    tainted = [one for pool in pools for one in pools.slices_of(pool)]
    wrong = []
    for name in pools:
        use = PoolUse(pools[name], holders)
        for device in use.pool.devices:
            id_, state = DeviceId(*name, device), use.state(device)
            found[state] += 1
            if id_ in holders or state is DeviceState.INCOMPLETE:
                continue  # of a pool that contradicts itself, some nodes may see a part that does not
            if (state is DeviceState.FREE) != can_be_had(id_, tainted, claims):
                wrong.append(f"seed {seed}: {id_} is {state.name}")
    return wrong


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_a_device_is_free_where_a_claim_that_asks_for_it_alone_can_have_it(seed: int) -> None:
    assert differences(seed, Counter()) == []


def test_the_clusters_have_devices_in_every_state_that_they_can_be_in() -> None:
    found: Counter[DeviceState] = Counter()
    for seed in range(150):
        differences(seed, found)
    expected = {*DeviceState} - {DeviceState.UNHEALTHY, DeviceState.UNPUBLISHED, DeviceState.UNKNOWN}
    assert {state for state, count in found.items() if count > 2} == expected, found


def test_pools_follow_slices_and_rules() -> None:
    """What is kept up to date equals what is read anew, whatever comes and goes."""
    for seed in range(40):
        kept = ClusterPools()
        old: dict[tuple[type[Any], str], Any] = {}
        for step in range(4):
            cluster = device_cluster(seed * 10 + step, "1")
            new = {(type(o), o.metadata.name): o for o in cluster if isinstance(o, (ResourceSlice, DeviceTaintRule))}
            for key in {**old, **new}:
                changed = kept.change_slice if key[0] is ResourceSlice else kept.change_rule
                changed(old.get(key), new.get(key))
                for name in kept:
                    assert kept[name].name == name  # read between changes
            old = new
            slices, rules = of_type(cluster, ResourceSlice), of_type(cluster, DeviceTaintRule)
            fresh = ClusterPools(slices, rules)
            assert {name: kept[name] for name in kept} == {name: fresh[name] for name in fresh}
