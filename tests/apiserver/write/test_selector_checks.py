"""Selectors of a write are checked without holding up the event loop, and with the answer that they always get."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.api.gates import FeatureGates
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess
from tests import objects

GOOD = "&&".join(["device.driver != 'x'"] * 400)
LIMIT = 0.1  # seconds of the thread's processor: twenty milliseconds are the aim, and machines differ


def claim_choosing(name: str, *expressions: str) -> dict[str, Any]:
    return objects.claim(name, objects.request(selectors=expressions), namespace="default")


@pytest.fixture
async def client() -> Any:
    running = await Running.open(ServerSettings(keys=None))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def test_long_selectors_are_stored_where_they_are_right(client: InProcess) -> None:
    created = await client.create(ResourceClaim, claim_choosing("c", GOOD, "device.driver == 'y'"))
    (request,) = created.spec.devices.requests or ()
    assert request.exactly is not None
    assert len(request.exactly.selectors) == 2


async def test_each_wrong_selector_is_told_long_or_short(client: InProcess) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(ResourceClaim, claim_choosing("c", f"{GOOD} && nope", "nope", GOOD))
    text = str(caught.value)
    assert "selectors[0].cel.expression" in text
    assert "selectors[1].cel.expression" in text
    assert "selectors[2]" not in text
    assert text.count("undeclared reference to 'nope'") == 2


async def test_an_update_with_a_long_selector_is_checked_too(client: InProcess) -> None:
    created = await client.create(ResourceClaim, claim_choosing("c"))
    changed = claim_choosing("c", f"{GOOD} && nope")
    changed["metadata"]["resourceVersion"] = created.metadata.resourceVersion
    with pytest.raises(Invalid):
        await client.update(ResourceClaim, changed)


async def test_many_long_selectors_do_not_hold_the_event_loop(
    client: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[float] = []
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        turns.append(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    expressions = [f"{GOOD} && device.driver != '{at}'" for at in range(8)]
    await client.create(ResourceClaim, claim_choosing("c", *expressions))
    assert 0 < max(turns) < LIMIT


def deriving(*expressions: str) -> dict[str, Any]:
    derived = [{"name": f"x.io/a{at}", "expression": text} for at, text in enumerate(expressions)]
    exactly = {"deviceClassName": "gpu", "derivedAttributes": derived}
    constraints = [{"matchAttribute": one["name"]} for one in derived]
    devices = {"requests": [{"name": "r", "exactly": exactly}], "constraints": constraints}
    return {"metadata": {"generateName": "c-", "namespace": "default"}, "spec": {"devices": devices}}


async def with_gates(gates: str) -> Running:
    return await Running.open(ServerSettings(keys=None, gates=FeatureGates.parse(gates)))


async def test_derived_attributes_must_compile_to_values_and_cost_little_together() -> None:
    running = await with_gates("DRADerivedAttributes=true")
    client = InProcess(running.api, ADMIN)
    created = await client.create(ResourceClaim, deriving("device.driver", "1 + 1", GOOD))
    (request,) = created.spec.devices.requests or ()
    assert request.exactly is not None
    assert [one.name for one in request.exactly.derivedAttributes] == ["x.io/a0", "x.io/a1", "x.io/a2"]
    costly = f"{list(range(100))}.map(a, {list(range(100))}.filter(b, string(a + b) != device.driver).size())[0]"
    for wrong, says in (
        (["nope"], "undeclared reference to 'nope'"),
        (["device.capacity"], "must evaluate to a primitive scalar"),
        (["[1, 2]"], "must evaluate to a primitive scalar (string, integer, boolean, semver), not list"),
        ([f"{GOOD} && nope"], "undeclared reference to 'nope'"),
        ([costly] * 8, "too complex"),
    ):
        with pytest.raises(Invalid) as caught:
            await client.create(ResourceClaim, deriving(*wrong))
        assert says in str(caught.value)
        assert "spec.devices.requests[0].exactly.derivedAttributes" in str(caught.value)
    await running.close()


async def test_what_expressions_may_say_depends_on_the_gates_of_the_server() -> None:
    lists = 'device.attributes["x.io"].models.includes("a")'
    running = await with_gates("DRAConsumableCapacity=false,DRAFractionalCapacityRange=false")
    client = InProcess(running.api, ADMIN)
    for wrong in (lists, "device.allowMultipleAllocations"):
        with pytest.raises(Invalid):
            await client.create(ResourceClaim, claim_choosing("c", wrong))
    await running.close()
    running = await with_gates("DRAListTypeAttributes=true,DRADerivedAttributes=true")
    client = InProcess(running.api, ADMIN)
    await client.create(ResourceClaim, claim_choosing("c", lists, "device.allowMultipleAllocations"))
    await client.create(ResourceClaim, deriving("[1, 2]"))
    await running.close()
