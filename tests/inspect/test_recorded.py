"""Claims that Kubernetes v1.37 did not allocate, as recorded: each gets a cause, and none a crash."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.allocator.scenarios import Scenario, read_scenario
from dray.allocatorkit.cases import ALLOCATIONS, lines
from dray.api.types.core import NodeStatus, Pod
from dray.api.types.resource import ResourceClaim
from dray.inspect.explain import explain_pod
from dray.inspect.snapshot import Snapshot
from tests.inspect.objects import held

ROOM = msgspec.convert({"allocatable": {"pods": "10"}}, NodeStatus)


def snapshot_of(scenario: Scenario) -> Snapshot:
    """The question as a cluster with one pod that waits."""
    claims = [replace(c, metadata=replace(c.metadata, namespace="default")) for c in scenario.claims]
    tree: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "app"}],
            "resourceClaims": [{"name": c.metadata.name, "resourceClaimName": c.metadata.name} for c in claims],
        },
    }
    return Snapshot.of(
        replace(scenario.node, status=ROOM),
        *claims,
        *(_holder(number, *device) for number, device in enumerate(scenario.allocated)),
        *scenario.classes,
        *scenario.slices,
        msgspec.convert(tree, Pod),
    )


def _holder(number: int, driver: str, pool: str, device: str) -> ResourceClaim:
    claim = held(f"taken-{number}", device, node=pool, namespace="elsewhere")
    assert claim.status.allocation is not None
    devices = claim.status.allocation.devices
    results = tuple(replace(result, driver=driver) for result in devices.results)
    allocation = replace(claim.status.allocation, devices=replace(devices, results=results))
    return replace(claim, status=replace(claim.status, allocation=allocation))


def test_every_recorded_refusal_has_a_cause() -> None:
    codes: Counter[str] = Counter()
    for line in islice(lines(ALLOCATIONS), 419):
        if msgspec.json.decode(line)["want"]["outcome"] in ("none", "error"):
            found = explain_pod(snapshot_of(read_scenario(line, "recorded")), "default", "p")
            assert found.waits
            codes[found.cause.code] += 1
    assert codes.total() > 200
    assert not {"Unknown", "Wrong", "NoScheduler", "NodeRules"} & codes.keys()
