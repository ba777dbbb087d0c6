"""What manifests get wrong about counters, shares, binding conditions, extended resources and gates."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.inspect.findings import Finding
from dray.inspect.linting import lint
from dray.inspect.snapshot import Snapshot
from tests import objects
from tests.inspect.objects import DRIVER, class_, gpus, held, node
from tests.questions.test_partial_use import PARTITIONED, nic

API = "resource.k8s.io/v1"
SLICE = {"driver": DRIVER, "nodeName": "n1"}


def found(*trees: dict[str, Any], cluster: Snapshot | None = None, gates: str = "") -> list[Finding]:
    return lint([("file", tree) for tree in trees], FeatureGates.parse(gates), cluster)


def texts(findings: list[Finding], level: str = "") -> list[str]:
    return [finding.text for finding in findings if level in ("", finding.level)]


def part_of_pool(name: str, count: int = 2, **spec: Any) -> dict[str, Any]:
    return objects.resource_slice(name, node="n1", driver=DRIVER, pool="p", count=count, **spec)


def partition(name: str, set_: str, counter: str, much: str) -> dict[str, Any]:
    return {"name": name, "consumesCounters": [{"counterSet": set_, "counters": {counter: {"value": much}}}]}


COUNTERS = part_of_pool("a", sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])


def claim_for(**exactly: Any) -> dict[str, Any]:
    return objects.claim("c", objects.request(**exactly))


@pytest.mark.wording
@pytest.mark.parametrize(
    ("device", "says"),
    [
        (partition("d", "gpx", "memory", "1Gi"), "device d consumes counter set gpx, which is not published"),
        (partition("d", "gpu", "memry", "1Gi"), "device d consumes counter memry of counter set gpu"),
        (partition("d", "gpu", "memory", "9Gi"), "device d can never be allocated: it draws 9Gi of memory"),
    ],
)
def test_counters_that_are_not_there_or_not_enough(device: dict[str, Any], says: str) -> None:
    findings = found(COUNTERS, part_of_pool("b", devices=[device]))
    assert any(says in text for text in texts(findings, "error"))
    assert found(COUNTERS, part_of_pool("b", devices=[partition("d", "gpu", "memory", "8Gi")])) == []


@pytest.mark.wording
def test_a_pool_of_which_slices_are_missing() -> None:
    assert any("nobody gets devices of pool p: incomplete" in text for text in texts(found(COUNTERS), "warning"))


def test_devices_that_become_ready_late_must_say_how_that_fails() -> None:
    late = {"name": "d", "bindingConditions": ["ready"]}
    [finding] = found(part_of_pool("a", 1, devices=[late]))
    assert (finding.level, finding.field) == ("error", "spec.devices[0].bindingFailureConditions")
    assert found(part_of_pool("a", 1, devices=[{**late, "bindingFailureConditions": ["broken"]}])) == []


@pytest.mark.wording
@pytest.mark.parametrize(
    ("exactly", "says"),
    [
        ({"count": 3}, "within the counters left"),
        ({"capacity": {"requests": {"memory": "80Gi"}}}, "in all"),
    ],
)
def test_a_claim_that_fits_nowhere_even_when_nothing_is_in_use(exactly: dict[str, Any], says: str) -> None:
    cluster = Snapshot.of(node(), class_(), *PARTITIONED, held("x", "half-0"))
    [finding] = found(claim_for(**exactly), cluster=cluster)
    assert finding.level == "warning"
    assert says in finding.text
    assert found(claim_for(), cluster=cluster) == []


@pytest.mark.wording
def test_extended_resources_that_nothing_serves_and_names_that_two_classes_have() -> None:
    cluster = Snapshot.of(node(), class_(), gpus())
    container = {"name": "c", "image": "i", "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpx": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    [text] = texts(found(pod, cluster=cluster), "warning")
    assert "nothing serves deviceclass.resource.kubernetes.io/gpx, did you mean" in text
    classes = [
        {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"extendedResourceName": "x.io/gpu"},
        }
        for name in ("a", "b")
    ]
    assert [f.field for f in found(*classes)] == ["spec.extendedResourceName"] * 2


@pytest.mark.wording
def test_fields_that_need_a_gate_which_is_off() -> None:
    derived = claim_for(derivedAttributes=[{"name": "x.io/a", "expression": "1"}])
    derived["spec"]["devices"]["constraints"] = [{"matchAttribute": "x.io/a"}]
    [text] = texts(found(derived), "warning")
    assert text.endswith("derivedAttributes is dropped: the feature gate DRADerivedAttributes is off")
    assert found(derived, gates="DRADerivedAttributes=true") == []
    shared = part_of_pool("a", 1, devices=[nic()])
    assert found(shared) == []
    [text] = texts(found(shared, gates="DRAConsumableCapacity=false,DRAFractionalCapacityRange=false"), "warning")
    assert "allowMultipleAllocations is dropped: the feature gate DRAConsumableCapacity is off" in text
