"""The scheduler's core without a scheduler: changes in, pods woken, decisions out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.core.attempt import Promise, Refused
from dray.core.configuration import Configuration
from dray.core.core import PATIENCE, PATIENCE_AMID_CLAIMS
from dray.core.model import ClusterModel
from dray.core.queue import QueuePlace
from tests import objects
from tests.scheduler.objects import node, pod

GATES = FeatureGates.of({"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "DRADeviceTaintRules": True})


@pytest.fixture
def model() -> ClusterModel:
    made = ClusterModel(GATES, Configuration().profiles)
    for name in ("a", "b"):
        made.put(node(name, cpu="2"))
    made.put(msgspec.convert(objects.device_class(), DeviceClass))
    return made


def gpus(node_name: str, *names: str) -> ResourceSlice:
    tree = objects.resource_slice(node_name, node=node_name, pool=node_name, devices=[{"name": n} for n in names])
    return msgspec.convert(tree, ResourceSlice)


def claim(name: str) -> ResourceClaim:
    one = objects.request(allocationMode="ExactCount", count=1)
    return msgspec.convert(
        objects.claim(name, one, namespace="default", metadata={"uid": f"uid-{name}"}), ResourceClaim
    )


def user(name: str, *claims: str, **spec: Any) -> Pod:
    entries = [{"name": one, "resourceClaimName": one} for one in claims]
    return pod(name, resourceClaims=entries, **spec)


def attempts(model: ClusterModel) -> dict[str, str]:
    """Try every pod that can be tried: pod name → its node, or nothing."""
    if model.has_device_news:
        model.wake_for_devices()
    tried = {}
    while (waiting := model.next()) is not None:
        decision = model.decide(model.begin(waiting))
        if isinstance(decision, Promise):
            model.place(waiting, decision)
            written = [replace(c, status=_allocated(decision, c)) for c in decision.pending]
            for one in written:
                model.put(one)
            model.confirm(decision, written)
            bound = replace(waiting.pod, spec=replace(waiting.pod.spec, nodeName=decision.node))
            model.put(bound)
            tried[waiting.pod.metadata.name] = decision.node
        else:
            assert isinstance(decision, Refused)
            model.refuse(waiting, decision)
            tried[waiting.pod.metadata.name] = ""
    return tried


def _allocated(promise: Promise, pending: ResourceClaim) -> Any:
    tree = {"allocation": promise.allocation_of(pending), "reservedFor": []}
    return msgspec.convert(tree, type(pending.status))


def place_of(model: ClusterModel, name: str) -> QueuePlace | None:
    waiting = model.queue.get(f"uid-{name}")
    return waiting.place if waiting is not None else None


def test_a_pod_gets_a_node_and_devices_and_leaves_the_queue(model: ClusterModel) -> None:
    model.put(gpus("b", "gpu-0"))
    model.put(claim("c"))
    model.put(user("p", "c"))
    assert attempts(model) == {"p": "b"}
    assert len(model.queue) == 0
    assert [device.device for device in model.state.index.taken] == ["gpu-0"]


def test_a_freed_device_wakes_one_of_the_pods_that_wait_for_it(model: ClusterModel) -> None:
    model.put(gpus("a", "gpu-0"))
    for name in "cde":
        model.put(claim(name))
        model.put(user(f"p{name}", name))
    assert attempts(model) == {"pc": "a", "pd": "", "pe": ""}
    model.put(claim("c"))  # without an allocation again
    assert attempts(model) == {"pd": "a"}


def test_a_class_wakes_pods_that_devices_keep_out_and_no_others(model: ClusterModel) -> None:
    model.put(claim("c"))
    model.put(user("p", "c"))
    model.put(pod("large", resources={"requests": {"cpu": "64"}}))
    assert attempts(model) == {"p": "", "large": ""}
    model.put(msgspec.convert(objects.device_class("gpu", "true"), DeviceClass))
    assert attempts(model) == {"p": ""}
    model.put(msgspec.convert(objects.device_class("gpu", extendedResourceName="example.com/gpu"), DeviceClass))
    assert attempts(model) == {"p": "", "large": ""}


def test_a_pod_that_leaves_wakes_pods_that_lack_room(model: ClusterModel) -> None:
    model.put(claim("c"))
    model.put(user("p", "c"))
    for name in ("x", "y", "z"):
        model.put(pod(name, resources={"requests": {"cpu": "2"}}))
    assert attempts(model) == {"p": "", "x": "a", "y": "b", "z": ""}
    model.drop(pod("x"))
    assert attempts(model) == {"z": "a"}


def test_a_claim_that_comes_lets_its_pods_be_tried(model: ClusterModel) -> None:
    model.put(gpus("a", "gpu-0"))
    model.put(user("p", "c"))
    assert attempts(model) == {}
    assert place_of(model, "p") is QueuePlace.GATED
    model.put(claim("c"))
    assert attempts(model) == {"p": "a"}


def test_a_group_that_comes_lets_its_pods_be_tried(model: ClusterModel) -> None:
    model.put(gpus("a", "gpu-0"))
    model.put(claim("c"))
    entries = [{"name": "shared", "podGroupResourceClaim": "shared"}]
    model.put(pod("p", schedulingGroup={"podGroupName": "g"}, resourceClaims=entries))
    assert attempts(model) == {}
    tree = {
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"resourceClaims": [{"name": "shared", "resourceClaimName": "c"}]},
    }
    model.put(msgspec.convert(tree, PodGroup))
    assert place_of(model, "p") is not QueuePlace.GATED


def test_a_missing_claim_is_reported_once_and_only_after_a_while(model: ClusterModel) -> None:
    model.put(user("p", "c"))
    assert model.unreported() == []
    model.now += PATIENCE
    ((told, why),) = model.unreported()
    assert told.metadata.name == "p"
    assert why.problem is not None
    assert model.unreported() == []


def test_a_missing_claim_is_reported_later_while_other_claims_are_made(model: ClusterModel) -> None:
    model.put(user("p", "c"))
    model.now += PATIENCE
    model.put(claim("other"))
    assert model.unreported() == []
    model.now += PATIENCE
    assert [told.metadata.name for told, _ in model.unreported()] == ["p"]
    model.put(user("q", "d"))
    for _ in range(int(PATIENCE_AMID_CLAIMS / PATIENCE)):
        assert model.unreported() == []
        model.now += PATIENCE
        model.put(claim(f"at-{model.now}"))
    assert [told.metadata.name for told, _ in model.unreported()] == ["q"]


def test_another_pod_of_the_same_name_takes_the_place_of_the_first(model: ClusterModel) -> None:
    model.put(pod("p", resources={"requests": {"cpu": "2"}}))
    first = attempts(model)["p"]
    again = pod("p")
    model.put(replace(again, metadata=replace(again.metadata, uid="uid-again")))
    assert [placed.pod.metadata.uid for info in model.state.table for placed in info.pods.values()] == []
    assert model.queue.get("uid-again") is not None
    assert first in ("a", "b")


def test_a_held_pod_is_tried_when_it_is_released(model: ClusterModel) -> None:
    model.hold("uid-p")
    model.put(pod("p"))
    assert attempts(model) == {}
    model.release("uid-p")
    assert [*attempts(model)] == ["p"]


def test_a_taint_rule_that_goes_gives_its_devices_back(model: ClusterModel) -> None:
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "a"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    model.put(msgspec.convert(rule, DeviceTaintRule))
    model.put(gpus("a", "gpu-0"))
    model.put(claim("c"))
    model.put(user("p", "c"))
    assert attempts(model) == {"p": ""}
    model.drop(msgspec.convert(rule, DeviceTaintRule))
    assert attempts(model) == {"p": "a"}


def test_what_could_not_be_written_is_given_back_and_tried_again(model: ClusterModel) -> None:
    model.put(gpus("a", "gpu-0"))
    model.put(claim("c"))
    model.put(user("p", "c"))
    waiting = model.next()
    assert waiting is not None
    promise = model.decide(model.begin(waiting))
    assert isinstance(promise, Promise)
    model.place(waiting, promise)
    assert model.state.table.node_of("uid-p") == "a"
    model.undo(waiting, promise)
    assert not model.state.table.node_of("uid-p")
    assert not model.state.index.taken
    assert place_of(model, "p") is QueuePlace.BACKOFF
    model.now += 1.0
    assert attempts(model) == {"p": "a"}


def test_a_fork_leaves_nothing_behind(model: ClusterModel) -> None:
    model.put(gpus("a", "gpu-0"))
    model.put(claim("c"))
    model.put(user("p", "c"))
    with model.fork():
        model.now = 100.0
        model.hold("uid-q")
        model.put(pod("q"))
        model.drop(node("b"))
        assert attempts(model) == {"p": "a"}
        with model.fork():
            model.drop(gpus("a", "gpu-0"))
    assert model.now == 0.0
    assert not model.state.index.taken
    assert sorted(info.name for info in model.state.table) == ["a", "b"]
    assert model.objects.get(Pod, "q", "default") is None
    assert place_of(model, "p") is QueuePlace.ACTIVE
    model.put(pod("q"))
    assert attempts(model) == {"p": "a", "q": "b"}


def test_news_of_devices_in_a_fork_stay_there_and_those_before_are_not_lost(model: ClusterModel) -> None:
    model.put(claim("c"))
    model.put(user("p", "c"))
    assert attempts(model) == {"p": ""}
    with model.fork():
        model.put(gpus("a", "gpu-0"))
        assert model.has_device_news
    assert not model.has_device_news
    model.put(gpus("a", "gpu-0"))
    with model.fork():
        assert attempts(model) == {"p": "a"}  # looks at the news
    assert model.has_device_news
    assert attempts(model) == {"p": "a"}


def test_news_of_devices_are_not_lost_among_news_of_pods(model: ClusterModel) -> None:
    """A device becomes free, and before anybody looks whom that helps, a pod is placed elsewhere."""
    model.put(gpus("a", "gpu-0"))
    for name in ("held", "wanted"):
        model.put(claim(name))
    model.put(user("holder", "held"))
    assert attempts(model) == {"holder": "a"}
    model.put(user("p", "wanted"))
    assert attempts(model) == {"p": ""}
    model.put(claim("held"))  # without devices
    model.put(pod("theirs", node="b"))
    assert attempts(model) == {"p": "a"}


def test_a_refused_pod_that_changes_is_tried_again(model: ClusterModel) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    model.put(pod("p", affinity=affinity))
    assert attempts(model) == {"p": ""}
    model.put(pod("p", affinity=affinity))
    assert attempts(model) == {}
    model.put(pod("p", labels={"app": "x"}, affinity=affinity))  # the first of its kind may go anywhere
    assert attempts(model) == {"p": "a"}
