"""Device taints: new claims avoid them, and pods leave tainted devices, whatever their claim is reserved for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dray.api.reasons.nodes import NodeCode
from dray.api.times import timestamp
from dray.api.types.core import ConfigMap, Pod
from dray.api.types.resource import DeviceTaintRule
from dray.client import ManualClock
from tests.controllers.conftest import gone, quiet
from tests.saying import words_of
from tests.waiting import eventually
from tests.workloads.cluster import DRIVER, Cluster, tolerating

BROKEN = {"key": "broken", "effect": "NoExecute"}


async def rule(cluster: Cluster, effect: str = "NoExecute", name: str = "r", **selector: str) -> DeviceTaintRule:
    tree = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": {**BROKEN, "effect": effect}}}
    return await cluster.client.create(DeviceTaintRule, tree)


async def remains(cluster: Cluster, *names: str) -> None:
    """These pods, and no others, are left."""

    async def left() -> bool:
        return sorted(p.metadata.name for p in (await cluster.client.list(Pod, "ns")).items) == sorted(names)

    await eventually(left)


async def says(cluster: Cluster, status: str, *texts: str) -> None:
    """Wait until the rule's condition has a status and these words."""
    seen: dict[str, Any] = {}

    async def told() -> bool:
        for condition in (await cluster.client.get(DeviceTaintRule, "r")).status.conditions:
            seen["it"] = condition
            if condition.type == "EvictionInProgress" and condition.status == status:
                return all(text in condition.message for text in texts)
        return False

    try:
        await eventually(told)
    except AssertionError:
        raise AssertionError(f"expected {status} {texts}, the rule says {seen}") from None


# Scheduling


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_new_claims_avoid_devices_that_a_rule_taints(cluster: Cluster, effect: str) -> None:
    await rule(cluster, effect, driver=DRIVER, pool="net")
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.waits("p", words_of(NodeCode.CANNOT_ALLOCATE))
    await cluster.client.delete(DeviceTaintRule, "r")
    await cluster.running("p")


async def test_a_rule_about_one_device_leaves_the_others(cluster: Cluster) -> None:
    await rule(cluster, "NoSchedule", driver=DRIVER, pool="net", device="d0")
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.running("p")
    allocation = (await cluster.read()).status.allocation
    assert allocation is not None
    assert allocation.devices.results[0].device == "d1"


async def test_a_rule_without_selector_means_no_device(cluster: Cluster) -> None:
    tree = {"metadata": {"name": "r"}, "spec": {"taint": BROKEN}}
    await cluster.client.create(DeviceTaintRule, tree)
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.running("p")


async def test_a_claim_that_tolerates_the_taint_gets_the_device(cluster: Cluster) -> None:
    await rule(cluster, driver=DRIVER)
    await cluster.claim(**tolerating())
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await quiet()
    await remains(cluster, "p")


async def test_taints_in_slices_keep_new_claims_off(cluster: Cluster) -> None:
    await cluster.publish(1, {"d0": [{"key": "broken", "effect": "NoSchedule"}]})
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.waits("p", words_of(NodeCode.CANNOT_ALLOCATE))
    await cluster.publish(1)
    await cluster.running("p")


# Eviction


async def test_pods_that_are_listed_leave(cluster: Cluster) -> None:
    await cluster.claim("bad")
    await cluster.pod("p", x="bad")
    await cluster.pod("q", x="bad")
    await cluster.pod("bystander")
    await cluster.running("p", "q", "bystander")
    await rule(cluster, driver=DRIVER)
    await remains(cluster, "bystander")
    await cluster.event("DeviceTaintManagerEviction", f"Marking for deletion: device {DRIVER}/net/d0 has taint broken")


async def test_pods_of_a_claim_for_any_pod_leave(cluster: Cluster) -> None:
    made = await cluster.client.create(ConfigMap, {"metadata": {"name": "w"}}, namespace="ns")
    await cluster.claim(reservedFor={"resource": "configmaps", "name": "w", "uid": made.metadata.uid})
    for name in ("p", "q"):
        await cluster.pod(name, x="c")
    await cluster.running("p", "q")
    await rule(cluster, driver=DRIVER)
    await remains(cluster)


@pytest.mark.parametrize("source", ["t:t", "c"])
async def test_pods_that_use_the_groups_claim_leave_and_no_other_member(cluster: Cluster, source: str) -> None:
    await cluster.template()
    await cluster.claim()
    await cluster.group(claim=source)
    await cluster.pod("user-1", "g", resource="g:claim")
    await cluster.pod("user-2", "g", seed=False, claim=source)
    await cluster.pod("member", "g")
    await cluster.running("user-1", "user-2", "member")
    await rule(cluster, driver=DRIVER)
    await remains(cluster, "member")


async def test_pods_that_are_not_scheduled_leave_too(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("placed", "g", resource="g:claim")
    await cluster.running("placed")
    tree = {
        "metadata": {"name": "waiting"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": {"no": "node"},
            "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [{"name": "x", "podGroupResourceClaim": "claim"}],
        },
    }
    await cluster.client.create(Pod, tree, namespace="ns")
    await cluster.pod_is("waiting", lambda pod: bool(pod.status.resourceClaimStatuses))
    await rule(cluster, driver=DRIVER)
    await remains(cluster)


async def test_a_taint_in_a_slice_evicts_the_pods_of_its_device_only(cluster: Cluster) -> None:
    await cluster.claim("a")
    await cluster.pod("p", x="a")
    await cluster.running("p")
    await cluster.claim("b")
    await cluster.pod("q", x="b")
    await cluster.running("q")
    await cluster.publish(4, {"d0": [BROKEN]})
    await remains(cluster, "q")


async def test_the_condition_of_an_evicted_pod_says_why(idle: Cluster) -> None:
    for part in ("controllers", "scheduler", "nodes"):
        await idle.start(part)
    await idle.claim()
    await idle.pod("p", x="c")
    await idle.running("p")
    await idle.stop("nodes")
    await rule(idle, driver=DRIVER)
    await idle.pod_is("p", lambda pod: pod.metadata.deletionTimestamp is not None)
    pod = await idle.client.get(Pod, "p", "ns")
    (told,) = [c for c in pod.status.conditions if c.type == "DisruptionTarget"]
    assert (told.status, told.reason) == ("True", "DeletionByDeviceTaintManager")
    assert told.message == "Device Taint manager: deleting due to NoExecute taint"


async def test_toleration_seconds_delay_the_eviction_and_a_rule_taken_back_ends_it(idle: Cluster) -> None:
    clock = ManualClock(time.time())
    await idle.start("scheduler")
    await idle.start("nodes")
    await idle.claim("short", **tolerating(60))
    await idle.claim("long", **tolerating(600))
    await idle.pod("p", x="short")
    await idle.pod("q", x="long")
    await idle.running("p", "q")
    await idle.start("controllers", clock=clock)
    await rule(idle, driver=DRIVER)
    await clock.advance(30)
    await remains(idle, "p", "q")
    await clock.advance(40)
    await gone(idle.client, Pod, "p", "ns")
    await remains(idle, "q")
    await idle.client.delete(DeviceTaintRule, "r")
    await idle.event("DeviceTaintManagerEviction", "Cancelling deletion", about="q")
    await clock.advance(900)
    await remains(idle, "q")


async def test_toleration_seconds_count_for_pods_that_are_younger_than_the_taint(idle: Cluster) -> None:
    taint = {**BROKEN, "timeAdded": timestamp(time.time() - 10)}
    tree = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}}
    await idle.client.create(DeviceTaintRule, tree)
    await idle.start("scheduler")
    await idle.start("nodes")
    await idle.claim("c", **tolerating(3600))
    await idle.pod("p", x="c")
    await idle.running("p")
    clock = ManualClock(time.time())
    await idle.start("controllers", clock=clock)
    await clock.advance(1800)
    await quiet()
    await remains(idle, "p")
    await clock.advance(1800)
    await gone(idle.client, Pod, "p", "ns")


async def test_a_replacement_that_resolves_to_the_tainted_claim_leaves_too_but_not_at_once(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    await rule(cluster, driver=DRIVER)
    await remains(cluster)
    await asyncio.sleep(1.1)  # times in objects are whole seconds; the replacement must be younger than the taint
    await cluster.pod("replacement", "g", resource="g:claim")
    await cluster.running("replacement")
    await remains(cluster)


# The rule's status


async def test_the_rule_counts_pods_that_are_left_and_evicted(idle: Cluster) -> None:
    await idle.start("scheduler")
    await idle.start("nodes")
    await idle.claim("now")
    await idle.claim("later", **tolerating(600))
    for name in ("a", "b", "c"):
        await idle.pod(name, x="now")
    await idle.pod("d", x="later")
    await idle.running("a", "b", "c", "d")
    await idle.start("controllers")
    await rule(idle, driver=DRIVER)
    await says(idle, "True", "1 pod needs to be evicted in 1 namespace.", "3 pods evicted since starting")
    await idle.delete("d")
    await says(idle, "False", "3 pods evicted since starting the controller.")


async def test_a_rule_without_effect_says_what_it_would_do(cluster: Cluster) -> None:
    await cluster.claim()
    await cluster.claim("tolerant", **tolerating())
    await cluster.pod("p", x="c")
    await cluster.pod("q", x="tolerant")
    await cluster.running("p", "q")
    made = await rule(cluster, "None", driver=DRIVER)
    would = "2 allocated devices selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute."
    await says(cluster, "False", would)
    await remains(cluster, "p", "q")
    taint = {"timeAdded": "2026-01-01T00:00:00Z"}
    changed = await cluster.client.patch(DeviceTaintRule, "r", {"spec": {"taint": taint}})
    assert changed.metadata.generation == made.metadata.generation + 1

    async def observed() -> bool:
        conditions = (await cluster.client.get(DeviceTaintRule, "r")).status.conditions
        return [c.observedGeneration for c in conditions] == [changed.metadata.generation]

    await eventually(observed)
