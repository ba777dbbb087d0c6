"""Trials: what is supposed counts for every rule, and nothing of it is left."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.core.attempt import Promise, Refused
from dray.core.configuration import Configuration
from dray.core.core import SchedulerCore
from dray.core.model import ClusterModel
from dray.core.trial import StateTrial
from tests import objects
from tests.scheduler.objects import node, pod

GATES = FeatureGates.of({"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "DRAReservedForWorkloads": True})


def model_of(*slices: ResourceSlice, nodes: Sequence[str] = ("a", "b")) -> ClusterModel:
    made = ClusterModel(GATES, Configuration().profiles)
    for name in nodes:
        made.put(node(name, cpu="4"))
    made.put(msgspec.convert(objects.device_class(), DeviceClass))
    for one in slices:
        made.put(one)
    return made


def gpus(node_name: str, *devices: Any) -> ResourceSlice:
    tree = objects.resource_slice(node_name, *devices, node=node_name)
    return msgspec.convert(tree, ResourceSlice)


def held(name: str, node_name: str, device: str, *users: dict[str, str], **allocation: Any) -> ResourceClaim:
    """A claim that holds a device and lists users."""
    result = {"request": "r", "driver": objects.DRIVER, "pool": node_name, "device": device}
    where = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
    }
    said = {"devices": {"results": [result]}, "nodeSelector": where, **allocation}
    status = {"allocation": said, "reservedFor": [*users]}
    one = objects.request(allocationMode="ExactCount", count=1)
    tree = objects.claim(name, one, namespace="default", metadata={"uid": f"uid-{name}"}, status=status)
    return msgspec.convert(tree, ResourceClaim)


def free(name: str) -> ResourceClaim:
    return replace(held(name, "a", "none"), status=type(held(name, "a", "none").status)())


def user(name: str) -> dict[str, str]:
    return {"resource": "pods", "name": name, "uid": f"uid-{name}"}


GROUP_USER = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


def with_claims(name: str, *claims: str, on: str = "", **spec: Any) -> Pod:
    return pod(name, on, resourceClaims=[{"name": one, "resourceClaimName": one} for one in claims], **spec)


def decide(core: SchedulerCore, trial: StateTrial, name: str) -> str:
    """Place a waiting pod in a trial: its node, or nothing."""
    waiting = core.queue.get(f"uid-{name}")
    assert waiting is not None
    attempt = core.trial_attempt(waiting.pod)
    decision = core.decide(attempt)
    if isinstance(decision, Refused):
        return ""
    assert isinstance(decision, Promise)
    trial.place(attempt, decision)
    return decision.node


def test_a_device_is_free_when_the_last_user_of_its_claim_is_taken_off() -> None:
    model = model_of(gpus("a", "gpu-0"))
    model.put(held("shared", "a", "gpu-0", user("x"), user("y")))
    x, y = (with_claims(name, "shared", on="a") for name in "xy")
    for one in (x, y, free("c"), with_claims("p", "c")):
        model.put(one)
    with model.state.trial() as trial:
        assert decide(model, trial, "p") == ""
        trial.take_off(x)
        assert decide(model, trial, "p") == ""
        trial.take_off(y)
        mark = trial.mark()
        assert decide(model, trial, "p") == "a"
        with pytest.raises(ValueError, match="no node"):
            trial.take_off(x)
        trial.rewind(mark)
        trial.put_back(x)
        assert decide(model, trial, "p") == ""
    assert len(model.state.index.taken) == 1
    assert model.state.table.node_of("uid-x") == model.state.table.node_of("uid-y") == "a"


@pytest.mark.parametrize("of_the_second", [("shared",), ()], ids=["used by both", "used by the first alone"])
def test_the_claim_of_a_group_is_free_when_the_whole_group_is_taken_off(of_the_second: tuple[str, ...]) -> None:
    model = model_of(gpus("a", "gpu-0"))
    tree = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}}
    spec = {"resourceClaims": [{"name": "shared", "resourceClaimName": "shared"}]}
    model.put(msgspec.convert({**tree, "spec": spec}, PodGroup))
    model.put(held("shared", "a", "gpu-0", GROUP_USER))
    group = {"podGroupName": "g"}
    pods = [
        with_claims("x", "shared", on="a", schedulingGroup=group),
        with_claims("y", *of_the_second, on="a", schedulingGroup=group),
    ]
    for one in (*pods, free("c"), with_claims("p", "c")):
        model.put(one)
    with model.state.trial() as trial:
        trial.take_off(pods[0])
        assert decide(model, trial, "p") == ""
        trial.take_off(pods[1])
        assert decide(model, trial, "p") == "a"
        with pytest.raises(ValueError, match="was not taken off"):
            trial.put_back(with_claims("p", "c"))


def test_a_claim_that_any_pod_may_use_keeps_its_devices() -> None:
    model = model_of(gpus("a", "gpu-0"))
    model.put(held("open", "a", "gpu-0", user("x"), reservedForAnyPod=True))
    x = with_claims("x", "open", on="a")
    for one in (x, free("c"), with_claims("p", "c")):
        model.put(one)
    with model.state.trial() as trial:
        trial.take_off(x)
        assert decide(model, trial, "p") == ""


def test_pods_that_share_a_claim_follow_its_first_user() -> None:
    model = model_of(gpus("b", "gpu-0"))
    model.put(free("c"))
    for name in ("p", "q"):
        model.put(with_claims(name, "c"))
    with model.state.trial() as trial:
        assert [decide(model, trial, name) for name in ("p", "q")] == ["b", "b"]
    assert model.state.index.taken == frozenset()
    assert model.state.table.node_of("uid-p") == ""


def test_placements_that_are_kept_are_promises() -> None:
    model = model_of(gpus("a", "gpu-0"))
    for one in (free("c"), with_claims("p", "c"), free("d"), with_claims("q", "d")):
        model.put(one)
    with model.state.trial() as trial:
        decide(model, trial, "p")
        trial.keep()
    assert model.state.table.node_of("uid-p") == "a"
    assert model.state.devices.ledger.is_promised("uid-c")
    assert model.state.devices.claim("default", "c") == free("c")
    waiting = model.queue.get("uid-q")
    assert waiting is not None
    assert isinstance(model.decide(model.trial_attempt(waiting.pod)), Refused)


def test_victims_of_a_trial_that_is_kept_hold_their_devices_until_they_end() -> None:
    model = model_of(gpus("a", "gpu-0"))
    victim = with_claims("x", "own", on="a")
    for one in (held("own", "a", "gpu-0", user("x")), victim, free("c"), with_claims("p", "c")):
        model.put(one)
    with model.state.trial() as trial:
        trial.take_off(victim)
        decide(model, trial, "p")
        trial.keep()
    assert model.state.table.node_of("uid-x") == "a"
    model.drop(victim)
    model.drop(held("own", "a", "gpu-0", user("x")))
    assert len(model.state.index.taken) == 1  # by the promise


def test_an_error_takes_a_trial_back() -> None:
    model = model_of(gpus("a", "gpu-0"))
    for one in (free("c"), with_claims("p", "c")):
        model.put(one)

    def fail() -> None:
        with model.state.trial() as trial:
            decide(model, trial, "p")
            trial.keep()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert model.state.table.node_of("uid-p") == ""
    assert not model.state.devices.ledger.is_promised("uid-c")


def picture(model: ClusterModel) -> dict[str, Any]:
    """All that decisions look at."""
    table, devices = model.state.table, model.state.devices
    infos = sorted(table, key=lambda info: info.name)
    return {
        "pods": {info.name: {uid: (p.pod, p.demand) for uid, p in info.pods.items()} for info in infos},
        "amounts": {info.name: {k: v for k, v in info.taken.items() if v} for info in infos},
        "scored": [(info.scored_cpu, info.scored_memory, info.ports) for info in infos],
        "left": table.load.left(100, 1000, [info.position for info in infos]),
        "devices": (model.state.index.taken, model.state.index.shares),
        "claims": [devices.claim("default", f"c{i}") for i in range(8)],
        "promised": [devices.ledger.is_promised(f"uid-c{i}") for i in range(8)],
        "refusers": (sorted(table.refusers), table.refusing),
        "start": model.state.placement.start,
    }


@pytest.mark.parametrize("seed", range(120))
def test_whatever_is_tried_nothing_is_left_of_it(seed: int) -> None:
    rng = random.Random(seed)
    model = _random_model(rng)
    before = picture(model)
    with model.state.trial() as trial:
        marks: list[tuple[int, dict[str, Any]]] = []
        for _ in range(rng.randint(1, 25)):
            _try_something(rng, model, trial, marks)
    after = picture(model)
    assert after == before
    with model.fork():
        with model.state.trial() as trial:
            _try_something(rng, model, trial, [])
            trial.keep()
        model.drop(next(model.objects.all(Pod)))
    assert picture(model) == before


def _random_model(rng: random.Random) -> ClusterModel:
    model = model_of(*(gpus(name, *(f"g{i}" for i in range(3))) for name in "ab"))
    tree = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}, "spec": {}}
    model.put(msgspec.convert(tree, PodGroup))
    there = [(name, f"g{i}") for name in "ab" for i in range(3)]
    for number in range(8):
        users = rng.choices([user(f"p{i}") for i in range(5)] + [GROUP_USER], k=rng.randint(1, 2))
        unique = [*{one["name"]: one for one in users}.values()]
        if there and rng.random() < 0.5:
            model.put(held(f"c{number}", *there.pop(rng.randrange(len(there))), *unique))
        else:
            model.put(free(f"c{number}"))
    for number in range(10):
        claims = rng.sample([f"c{i}" for i in range(8)], rng.randint(0, 2))
        spec = {"schedulingGroup": {"podGroupName": "g"}} if rng.random() < 0.4 else {}
        near = [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}]
        if rng.random() < 0.2:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}
        needs = {"requests": {"cpu": rng.choice(["100m", "1"])}}
        on = rng.choice("ab") if number < 5 else ""
        model.put(with_claims(f"p{number}", *claims, on=on, resources=needs, **spec))
    return model


def _try_something(
    rng: random.Random, model: ClusterModel, trial: StateTrial, marks: list[tuple[int, dict[str, Any]]]
) -> None:
    what, one = rng.randrange(6), rng.choice([*model.objects.all(Pod)])
    try:
        if what == 0:
            marks.append((trial.mark(), picture(model)))
        elif what == 1 and marks:
            mark, then = marks.pop(rng.randrange(len(marks)))
            marks[:] = [known for known in marks if known[0] <= mark]
            trial.rewind(mark)
            assert {**picture(model), "start": 0} == {**then, "start": 0}
        elif what == 2:
            trial.take_off(one)
        elif what == 3:
            trial.put_back(one)
        elif not one.spec.nodeName:
            attempt = model.trial_attempt(one)
            decision = model.decide(attempt)
            if isinstance(decision, Promise) and rng.random() < 0.9:  # else nobody follows it
                trial.place(attempt, decision)
    except ValueError:
        return


def test_placing_and_taking_back_what_was_taken_off_commute() -> None:
    model = model_of(gpus("a", "g0", "g1"))
    pods = [with_claims(f"x{i}", "c", on="a") for i in range(3)]
    for one in (held("c", "a", "g0", *(user(f"x{i}") for i in range(3))), *pods):
        model.put(one)
    before = picture(model)
    with model.state.trial() as trial:
        for one in pods:
            trial.take_off(one)
        for one in (pods[1], pods[0], pods[2]):
            trial.put_back(one)
        then = picture(model)
        then["pods"] = {name: dict(sorted(there.items())) for name, there in then["pods"].items()}
        assert then == before
