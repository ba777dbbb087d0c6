"""5,000 nodes with 8 devices each: the whole picture in pieces, and a change that costs what it changes."""

from __future__ import annotations

import pytest

from dray.sim.hardware import DRIVER
from dray.sim.nodes import register
from tests.web.serving import Browser, Served, allocate

NODES, DEVICES = 5000, 8


@pytest.mark.slow
async def test_5000_nodes_come_in_pieces_and_change_by_the_row(server: Served, admin: Browser) -> None:
    await register(server.client, NODES, DEVICES)
    async with admin.page() as page:
        assert (len(page.tables["nodes"]), len(page.tables["devices"])) == (NODES, NODES * DEVICES)
        assert page.largest <= 4096, "more rows hold a browser up"
        assert page.bytes < 100 * NODES * DEVICES
        await page.wait(lambda: [len(row["nodes"]) for row in page.tables.get("drivers", {}).values()] == [NODES])
        before = page.bytes
        await allocate(server.client, "mine", "node-4321", "gpu-3", driver=DRIVER)
        await page.wait(lambda: page.claim_state("mine") == "reserved")
        claim = page.row("claims", "mine")
        assert claim is not None
        [number] = claim["devices"]
        await page.wait(lambda: page.tables["devices"][number]["claims"] == [claim["id"]])
        assert page.bytes - before < 20_000, "one device changed"
        found = await admin.ask("match", expression=f'device.driver == "{DRIVER}"')
        assert (found["count"], found["matched"]) == (NODES * DEVICES, [[0, NODES * DEVICES]])
