"""Rows of devices, pools and claims."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.types.resource import ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from dray.controllers.poolstatus.computation import answer, complete_status
from dray.inspect.snapshot import Snapshot
from dray.questions.occupancy import answered_rows, claim_rows, device_rows, node_rows, pool_rows
from tests.inspect.objects import DRIVER, claim, device, gpus, held, pod, rule, taint, wants

SNAPSHOT = Snapshot.of(
    gpus("n1", [device("a"), device("b", taints=[taint()]), device("c")]),
    gpus("n2", 2, of=2),
    held("x", "a"),
    claim("two", wants(2)),
    claim(
        "either",
        {
            "name": "r",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "large", "count": 1},
                {"name": "all", "deviceClassName": "small", "allocationMode": "All"},
            ],
        },
    ),
)


def test_devices_have_one_state_each() -> None:
    states = {(row.pool, row.device): row.state for row in device_rows(SNAPSHOT)}
    assert states == {
        ("n1", "a"): "allocated",
        ("n1", "b"): "tainted",
        ("n1", "c"): "free",
        ("n2", "gpu-0"): "unusable",
        ("n2", "gpu-1"): "unusable",
    }
    first = device_rows(SNAPSHOT)[0]
    assert (first.claim, first.used_by, first.capacity) == ("default/x", ("pod/other",), {"memory": "40Gi"})
    assert device_rows(SNAPSHOT, "other.example.com") == []


def test_pools_are_counted_as_a_request_would_be_answered() -> None:
    rows = pool_rows(SNAPSHOT)
    assert [(r.pool, r.total, r.allocated, r.available, r.unavailable) for r in rows] == [
        ("n1", 3, 1, 1, 1),
        ("n2", 2, 0, 0, 2),
    ]
    assert rows[0].utilisation == 1 / 3
    status = complete_status(
        answer(SNAPSHOT.all(ResourceSlice), lambda *_: SNAPSHOT.all(ResourceClaim)), "2026-01-01T00:00:00Z"
    )
    tree: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"driver": DRIVER}, "status": status}
    answered = answered_rows([msgspec.convert(tree, ResourcePoolStatusRequest)])
    uncounted = {"total": 0, "unavailable": 0, "slices": 0}  # of an incomplete pool, a request is told no numbers
    expected = [replace(row, why=(), **uncounted if row.problem else {}) for row in rows]
    assert [replace(row, why=()) for row in answered] == expected
    assert answered[0].why  # that something is wrong is said, though not what
    assert pool_rows(SNAPSHOT, "other.example.com") == []


def test_what_keeps_devices_from_use_is_told_with_its_rule() -> None:
    ruled = Snapshot.of(gpus("n1", 2), rule(driver=DRIVER, device="gpu-0"), held("x", "gpu-0"))
    [pool] = pool_rows(ruled)
    assert (pool.allocated, pool.unavailable, len(pool.why)) == (1, 0, 1)
    assert "maintenance" in pool.why[0]
    first, second = device_rows(ruled)
    assert (first.state, len(first.taints), second.taints) == ("allocated", 1, ())
    [node] = node_rows(ruled)
    assert (node.node, node.driver, node.total, node.allocated, node.available) == ("n1", DRIVER, 2, 1, 1)
    assert node.why == pool.why


def test_a_device_that_its_driver_calls_unhealthy() -> None:
    health = {"resourceID": f"{DRIVER}/n1/gpu-0", "health": "Unhealthy", "message": "too hot"}
    told = [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:c", "resources": [health]}]}]
    user = pod("other", nodeName="n1", status={"phase": "Running", "containerStatuses": told})
    snapshot = Snapshot.of(gpus("n1", 2), held("c", "gpu-0"), user)
    first, second = device_rows(snapshot)
    assert (first.state, first.unhealthy, second.state) == ("unhealthy", "too hot", "free")
    [pool] = pool_rows(snapshot)
    assert (pool.allocated, pool.unhealthy) == (1, 1)
    [node] = node_rows(snapshot)
    assert (node.allocated, node.available, node.unhealthy) == (1, 1, 1)
    assert "too hot" in pool.why[0]


def test_taint_rules_count_for_who_may_read_them() -> None:
    snapshot = Snapshot.of(gpus("n1", 2), rule(driver=DRIVER, device="gpu-0"))
    assert [(r.available, r.unavailable) for r in pool_rows(snapshot)] == [(1, 1)]


def test_claims_say_what_they_want_and_have() -> None:
    rows = {row.name: row for row in claim_rows(SNAPSHOT)}
    assert [*rows] == ["either", "two", "x"]
    assert (rows["x"].state, rows["x"].nodes, rows["x"].devices) == (
        "allocated,reserved",
        ("n1",),
        (f"{DRIVER}/n1/a",),
    )
    assert (rows["two"].state, rows["two"].wants) == ("pending", "2 gpu")
    assert rows["either"].wants == "1 large | all small"
    assert claim_rows(SNAPSHOT, "other") == []
    assert [row.name for row in claim_rows(SNAPSHOT, driver=DRIVER)] == ["x"]
