"""What a driver sees of a claim."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.resource import ResourceClaim
from dray.driver.claims import allocated
from tests import objects

MINE, OTHER = "mine.example.com", "other.example.com"


def config(source: str, driver: str, value: int, *requests: str) -> dict[str, Any]:
    return {"source": source, "requests": [*requests], "opaque": {"driver": driver, "parameters": {"v": value}}}


def claim_with(results: list[dict[str, Any]], configs: list[dict[str, Any]]) -> ResourceClaim:
    """A claim that has devices, with configuration."""
    status = {"allocation": {"devices": {"results": results, "config": configs}}}
    return msgspec.convert(objects.claim(namespace="n", metadata={"uid": "u"}, status=status), ResourceClaim)


def result(request: str, device: str, driver: str = MINE, **more: Any) -> dict[str, Any]:
    return {"request": request, "driver": driver, "pool": "p", "device": device, **more}


def test_only_devices_and_configuration_of_the_driver_are_there() -> None:
    seen = allocated(
        claim_with(
            [result("a", "d0"), result("b", "d1", OTHER)],
            [config("FromClass", OTHER, 1), config("FromClass", MINE, 2), config("FromClaim", OTHER, 3)],
        ),
        MINE,
    )
    [device] = seen.devices
    assert (device.request, device.pool, device.name) == ("a", "p", "d0")
    assert [(one.source, one.parameters) for one in device.configs] == [("FromClass", {"v": 2})]
    assert (seen.uid, str(seen.reference)) == ("u", "n/c")


def test_configuration_applies_by_request_and_says_who_wrote_it() -> None:
    seen = allocated(
        claim_with(
            [result("a", "d0"), result("b/large", "d1"), result("b/small", "d2")],
            [
                config("FromClass", MINE, 1, "a"),
                config("FromClaim", MINE, 2),
                config("FromClaim", MINE, 3, "b"),
                config("FromClaim", MINE, 4, "b/small"),
            ],
        ),
        MINE,
    )
    found = {one.name: [(each.from_class, each.parameters["v"]) for each in one.configs] for one in seen.devices}
    assert found == {
        "d0": [(True, 1), (False, 2)],
        "d1": [(False, 2), (False, 3)],
        "d2": [(False, 2), (False, 3), (False, 4)],
    }


def test_admin_access_shares_and_consumed_capacity_are_told() -> None:
    share = "3f1c4e39-6b6d-4f0c-9c57-1f0e0b0c0d0e"
    [device] = allocated(
        claim_with([result("a", "d", adminAccess=True, shareID=share, consumedCapacity={"memory": "1Gi"})], []), MINE
    ).devices
    assert (device.admin_access, device.share_id, device.consumed_capacity) == (True, share, {"memory": "1Gi"})
