"""The kit finds what is wrong with a driver, and nothing where nothing is."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dray.driverkit import CheckOutcome, DriverReport, Patience, Places, own_cluster, run
from tests.driverkit.plain import PlainDriver

PATIENT = Patience(start=60, call=60, repair=60, quiet=0.5)
# Where something that never comes must be waited for, or two writes must be seen as belonging together.
PATIENCE = {
    "one at a time": replace(PATIENT, call=5),
    "slice count wrong": replace(PATIENT, start=5),
    "generation not raised": replace(PATIENT, quiet=2),
}

FAULTS = {
    "prepare not idempotent": {
        "prepares twice the same",
        "speaks all versions alike",
        "answers parallel calls",
        "remembers claims over a restart",
        "comes back after being killed",
    },
    "unprepare not idempotent": {"unprepares twice", "unprepares what it never prepared"},
    "claim missing": {"answers for every claim"},
    "wrong pool": {"names the devices"},
    "wrong device": {"names the devices"},
    "unknown claim prepared": {"refuses unknown claims"},
    "uid not checked": {"checks the uid"},
    "CDI id without spec": {
        "writes CDI specs",
        "prepares many devices",
        "prepares again afterwards",
        "remembers claims over a restart",
    },
    "names over the limits": {"publishes slices that are accepted"},
    "generation not raised": {"raises the generation"},
    "slice count wrong": {"publishes complete pools"},
    "one at a time": {"answers while another call hangs"},
    "socket left behind": {"takes its sockets away"},
}


# Of two calls at once that prepare a claim twice, the second may leave the file of the first behind.
BY_CHANCE = {"prepare not idempotent": {"leaves nothing behind"}}


async def report_on(fault: str) -> DriverReport:
    with tempfile.TemporaryDirectory(prefix="dray-") as name:
        root = Path(name)
        async with own_cluster(root) as cluster:
            places = Places(cluster.kubeconfig, cluster.node, root / "k", root / "cdi")
            return await run(PlainDriver(fault), cluster, places, PATIENCE.get(fault, PATIENT))


async def test_a_good_driver_passes_every_check() -> None:
    report = await report_on("")
    assert report.failures == {}
    assert {one.outcome for one in report.results} == {CheckOutcome.PASSED}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_driver_is_found_out(fault: str) -> None:
    assert set((await report_on(fault)).failures) - BY_CHANCE.get(fault, set()) == FAULTS[fault]
