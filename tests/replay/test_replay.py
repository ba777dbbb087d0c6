"""Recordings lived through once more: the same placements, and what changes change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.wire import Tree
from dray.core import configuration
from dray.recordings.anonymous import Aliases, names_in, renamed
from dray.recordings.history import DeletedObject, History, RecordedEvent
from dray.recordings.recording import record, typed_object
from dray.replay.comparison import compare, recorded_placements
from dray.replay.replaying import Replay, Setup
from dray.replay.report import Run, SimulationReport, rows_of
from dray.replay.timeline import Decide, Timeline, timeline_of
from dray.sim import changes, hardware
from dray.testing import Cluster
from tests import objects
from tests.recordings.recording_live import recorded
from tests.sim.test_cluster import claim_spec, machines, pod, template
from tests.waiting import wait_until

ROOT = "resource.kubernetes.io/pcieRoot"
MODEL = f'device.attributes["{hardware.DRIVER}"].model'
GATES = FeatureGates()


def claim_tree(name: str, spec: Tree) -> Tree:
    return objects.claim(name, namespace="default") | {"spec": spec}


def named_template(name: str, spec: Tree) -> Tree:
    return objects.template(name, namespace="default") | {"spec": {"spec": spec}}


def selecting(model: str, count: int) -> Tree:
    selectors = [{"cel": {"expression": f'{MODEL} == "{model}"'}}]
    return {"deviceClassName": hardware.CLASS, "count": count, "selectors": selectors}


TEMPLATES = [
    *(template(count) for count in (1, 2, 3)),
    named_template(
        "either",
        {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "firstAvailable": [
                            {"name": "big", **selecting("h100", 1)},
                            {"name": "small", **selecting("a100", 2)},
                        ],
                    }
                ]
            }
        },
    ),
    named_template(
        "together",
        claim_spec(2)["devices"]
        and {"devices": {**claim_spec(2)["devices"], "constraints": [{"matchAttribute": ROOT}]}},
    ),
]


def workload(seed: int) -> list[Tree]:
    """Pods of many kinds that all fit sooner or later, each for a short time."""
    rng = random.Random(seed)
    pods: list[Tree] = []
    for number in range(14):
        name = f"w{seed}-{number}"
        kind = rng.choice(["one", "two", "three", "either", "together", "none", "shared"])
        if kind == "none":
            tree = pod(name, 0)
        elif kind == "shared":
            tree = pod(name, claim=f"shared-{seed}")
        else:
            tree = pod(name, {"one": 1, "two": 2, "three": 3}.get(kind, 1))
            if kind in ("either", "together"):
                tree["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": kind}]
        if rng.random() < 0.2:
            tree["spec"]["nodeSelector"] = {"kubernetes.io/hostname": rng.choice(["node-0", "node-1"])}
        tree["spec"]["restartPolicy"] = "Never"
        tree["metadata"]["annotations"] = {"sim.dray.dev/seconds": f"{rng.uniform(0.05, 0.2):.3f}"}
        pods.append(tree)
    return [claim_tree(f"shared-{seed}", claim_spec(1)), *pods]


@pytest.fixture(scope="module")
def live() -> Iterator[Cluster]:
    with Cluster(nodes=3, devices=4) as cluster:
        for tree in TEMPLATES:
            cluster.apply(tree)
        wait_until(lambda: len(cluster.list("resourceslices")) == 3)
        yield cluster


def play(cluster: Cluster, path: Path, seed: int, *, anonymous: bool = False) -> History:
    """Run a workload in a real cluster and record it."""
    trees = workload(seed)
    count = len(trees) - 1
    with recorded(cluster, path, anonymous=anonymous) as recording:
        for tree in trees:
            cluster.apply(tree)

        def is_over() -> bool:
            pods = recording.pods().values()
            return len(pods) == count and all(one.status.phase == "Succeeded" for one in pods)

        wait_until(is_over)
        history = recording.history()
    for tree in trees[1:]:
        cluster.delete("pods", tree["metadata"]["name"])
    wait_until(lambda: not cluster.list("pods"))
    return history


@pytest.mark.slow
def test_a_simulation_gives_the_placements_of_a_real_cluster_in_the_recorded_order(
    live: Cluster, tmp_path: Path
) -> None:
    """Twenty workloads in `dray up` with simulated nodes, and in memory."""
    for seed in range(20):
        timeline = timeline_of(play(live, tmp_path / f"{seed}.json", seed))
        found = compare(recorded_placements(timeline), Replay(timeline, is_free=False).run().placements)
        assert (found.same, found.differences) == (14, ()), f"workload {seed}"


def test_a_recording_without_names_gives_its_own_placements(live: Cluster, tmp_path: Path) -> None:
    history = play(live, tmp_path / "anonymous.json.gz", 100, anonymous=True)
    assert b"w100" not in msgspec.json.encode(history)
    timeline = timeline_of(history)
    found = compare(recorded_placements(timeline), Replay(timeline, is_free=False).run().placements)
    assert (found.same, found.differences) == (14, ())


def test_where_the_scheduler_began_to_look_among_many_nodes_is_found_out(tmp_path: Path) -> None:
    with Cluster(nodes=120, devices=2) as many:
        many.apply(template(1))
        wait_until(lambda: len(many.list("resourceslices")) == 120)
        for number in range(30):  # before the recording
            many.apply(pod(f"before-{number}", 1))
        wait_until(lambda: all(one["spec"].get("nodeName") for one in many.list("pods")))
        with recorded(many, tmp_path / "many.json") as recording:
            for number in range(60):
                many.apply(pod(f"p{number}", 1))
            wait_until(lambda: sum(bool(one.spec.nodeName) for one in recording.pods().values()) == 90)
            timeline = timeline_of(recording.history())
    found = compare(recorded_placements(timeline), Replay(timeline, is_free=False).run().placements)
    assert (found.same, found.differences) == (60, ())


def hidden(history: History) -> History:
    """The same without names, as it would have been followed."""
    objects = history.recording.typed()
    aliases = Aliases(names_in(objects))
    events = []
    for event in history.events:
        if event.put is not None:
            put: Any = msgspec.to_builtins(renamed(typed_object(0, event.put), aliases))
            events.append(replace(event, put=put))
        elif event.gone is not None:
            gone = event.gone
            namespace = gone.namespace if gone.namespace in ("", "default") else aliases(gone.namespace)
            events.append(replace(event, gone=DeletedObject(gone.apiVersion, gone.kind, aliases(gone.name), namespace)))
    made = record([renamed(one, aliases) for one in objects], time="2026-01-01T00:00:00Z", source="")
    return History(made, tuple(events))


def test_a_recording_without_names_gives_the_same_figures(live: Cluster, tmp_path: Path) -> None:
    history = play(live, tmp_path / "named.json", 200)
    for is_free in (False, True):
        named, anonymous = (
            Replay(timeline_of(one), is_free=is_free).run().figures for one in (history, hidden(history))
        )
        assert anonymous == named


def story(*events: RecordedEvent, nodes: int = 2, devices: int = 2) -> Timeline:
    """What happens in a small cluster, without any scheduler."""
    objects = [object_of(tree, GATES) for tree in (*machines(nodes, devices), *TEMPLATES)]
    return timeline_of(History(record(objects, time="2026-01-01T00:00:00Z", source="test"), events))


def comes(at: float, name: str, gpus: int, runs: float) -> RecordedEvent:
    tree = pod(name, gpus)
    tree["metadata"]["uid"] = name
    return RecordedEvent(at, int(at * 1000) + 1, put=msgspec.to_builtins(object_of(tree, GATES)), runs=runs)


def test_a_pod_waits_as_long_as_others_hold_what_it_needs() -> None:
    timeline = story(comes(0, "a", 2, 100), comes(10, "b", 2, 100), comes(20, "c", 2, 50))
    found = Replay(timeline, is_free=True).run()
    figures = found.figures
    assert {name: one.placed for name, one in found.placements.items()} == {"a": 0, "b": 10, "c": 100}
    assert (figures.seconds, figures.came, figures.ended, figures.waiting_now) == (150, 3, 3, 0)
    assert (figures.waiting.mean, figures.waiting.longest) == (80 / 3, 80)
    assert [(code, one.pods, one.seconds) for code, one in figures.reasons.items()] == [("cannot-allocate", 1, 80)]
    assert figures.utilisation.mean == pytest.approx((2 * 100 + 2 * 100 + 2 * 50) / (4 * 150))
    largest = figures.fragmentation[hardware.CLASS]
    assert (largest[0][1], min(value for _, value in largest), largest[-1][1]) == (2, 0, 2)


def test_nodes_that_come_count_from_then_on_though_nothing_else_happens() -> None:
    new = [object_of(tree, GATES) for tree in machines(1, devices=4, first=2)]
    events = [RecordedEvent(10.0, 1 + number, put=msgspec.to_builtins(one)) for number, one in enumerate(new)]
    figures = Replay(story(*events, comes(100, "late", 1, 5)), is_free=False).run().figures
    largest = figures.fragmentation[hardware.CLASS]
    assert {value for at, value in largest if at < 10} == {2}
    assert {value for at, value in largest if 13 < at < 100} == {4}


def test_more_nodes_shorten_the_waiting() -> None:
    timeline = story(*(comes(number, f"p{number:02}", 2, 100) for number in range(10)))
    before = Replay(timeline, is_free=True).run()
    more = Setup(prepare=lambda cluster: changes.add_nodes(cluster, 2, "node-0"))
    after = Replay(timeline, more, is_free=True).run()
    assert (before.figures.nodes, after.figures.nodes) == (2, 4)
    assert after.figures.waiting.mean < before.figures.waiting.mean / 1.9
    found = compare(before.placements, after.placements)
    assert found.same + len(found.differences) == 10
    assert found.differences


def test_another_configuration_gives_other_placements() -> None:
    """Without the rule about resources of nodes, pods go where the recorded order of nodes leads them."""
    disabled = {"plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}}
    read = configuration.read(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [disabled]}
    )
    timeline = story(*(comes(number, f"p{number}", 1, 1000) for number in range(4)), nodes=4, devices=4)
    before = Replay(timeline, is_free=True).run()
    after = Replay(timeline, Setup(configuration=read), is_free=True).run()
    assert len({one.node for one in before.placements.values()}) == 4
    assert {one.node for one in after.placements.values()} == {"node-0"}


def test_policies_are_compared_by_what_they_leave_of_large_units() -> None:
    """Four pods with a device each: spread over four nodes, or packed on one, so that a claim for four devices still fits."""
    packing = {"plugins": {"score": {"enabled": [{"name": "DevicePacking", "weight": 10}]}}}
    read = configuration.read(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [packing]}
    )
    timeline = story(*(comes(number, f"p{number}", 1, 1000) for number in range(4)), nodes=4, devices=4)
    runs = [Replay(timeline, setup, is_free=True).run() for setup in (Setup(), Setup(configuration=read))]
    assert [len({one.node for one in run.placements.values()}) for run in runs] == [4, 1]
    report = SimulationReport("story", tuple(Run("", run.figures) for run in runs))
    rows = dict(rows_of(report))
    assert rows[f"largest claim of {hardware.CLASS} that fits, mean"] == ["3.0", "4.0"]


def test_another_gate_gives_other_placements() -> None:
    """Without alternatives, a claim that has some is not served."""
    tree = pod("a", 1)
    tree["metadata"]["uid"] = "a"
    tree["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "either"}]
    timeline = story(RecordedEvent(0, 1, put=msgspec.to_builtins(object_of(tree, GATES)), runs=5), devices=4)
    assert [*Replay(timeline, is_free=True).run().placements] == ["a"]
    without = Setup(gates=FeatureGates.parse("DRAPrioritizedList=false"))
    assert not Replay(timeline, without, is_free=True).run().placements


def test_other_hardware_replaces_the_recorded_one() -> None:
    timeline = story(*(comes(number, f"p{number}", 2, 1000) for number in range(4)))
    objects = tuple(object_of(tree, GATES) for tree in machines(1, 8, first=7))
    found = Replay(timeline, Setup(objects=objects, instead=True), is_free=True).run()
    assert {one.node for one in found.placements.values()} == {"node-7"}
    assert (found.figures.devices, found.figures.waiting.longest) == (8, 0)


def test_a_run_that_is_broken_off_has_figures() -> None:
    timeline = story(*(comes(number, f"p{number:03}", 1, 5) for number in range(200)))

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    replay = Replay(timeline, is_free=True)
    with pytest.raises(KeyboardInterrupt):
        replay.run(stop)
    figures = replay.result().figures
    assert not figures.is_complete
    assert 0 < figures.placed < 200


def test_a_binding_that_came_to_nothing_is_no_decision() -> None:
    """Devices were reserved and given back, and another time they were kept."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": True}
    meta = {"name": "a-gpus-x", "namespace": "default", "uid": "c", "ownerReferences": [owner]}
    bare: Tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": claim_spec(1)}
    reserved = {**bare, "status": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "a"}]}}
    came = comes(0, "a", 1, 0)
    assert came.put is not None
    bound = {**came.put, "spec": {**came.put["spec"], "nodeName": "node-1"}}
    timeline = story(
        replace(came, runs=None),
        *(
            RecordedEvent(float(at), 10 + at, put=tree)
            for at, tree in enumerate([bare, reserved, bare, reserved, bound], 1)
        ),
    )
    assert [step.at for step in timeline.steps if isinstance(step, Decide)] == [4.0]
    assert timeline.stories["a"].node == "node-1"
