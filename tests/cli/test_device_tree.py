"""Lines of devices: partitions below their counter set, shares below their device, and what still fits."""

from __future__ import annotations

from dray.cli._top_tables import picture
from dray.inspect.snapshot import Snapshot
from dray.questions.device_tree import lines
from dray.questions.occupancy import device_rows
from tests.inspect.objects import gpus, held, shared
from tests.questions.test_partial_use import PARTITIONED, nic


def test_partitions_stand_below_what_they_draw_on() -> None:
    found = [*lines(device_rows(Snapshot.of(*PARTITIONED, held("x", "half-0"))))]
    assert [line.name for line in found] == ["gpu-0", "├ whole", "├ half-0", "└ half-1"]
    assert (found[0].used, found[0].fits) == (0.5, "half-1")
    assert [line.claim for line in found] == ["", "", "default/x", ""]


def test_a_slice_that_is_gone_does_not_fill_the_others() -> None:
    slices = {f"slice-{at}": {"value": "1"} for at in range(4)}
    whole = {"name": "gpu", "counters": slices}
    parts = [
        {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {one: slices[one] for one in drawn}}]}
        for name, drawn in (("all", [*slices]), ("first", ["slice-0"]), ("rest", [*slices][1:]))
    ]
    objects = gpus("n1", 0, name="counters", of=2, sharedCounters=[whole]), gpus("n1", parts, of=2)
    [set_, *_] = lines(device_rows(Snapshot.of(*objects, held("x", "first"))))
    assert (set_.used, set_.fits) == (0.25, "rest")


def test_shares_stand_below_their_device() -> None:
    objects = (gpus("n1", [nic()]), shared("a", "nic", bandwidth="6G"), shared("b", "nic", bandwidth="1G"))
    found = [*lines(device_rows(Snapshot.of(*objects)))]
    assert [(line.name.strip(), line.claim, line.fits) for line in found] == [
        ("nic", "2 shares", "3G bandwidth"),
        ("6G bandwidth", "default/a", ""),
        ("1G bandwidth", "default/b", ""),
    ]


def test_a_table_of_whole_devices_has_no_column_for_what_still_fits() -> None:
    plain = picture("devices", device_rows(Snapshot.of(gpus("n1"))), None, wide=False)
    partitioned = picture("devices", device_rows(Snapshot.of(*PARTITIONED)), None, wide=True)
    assert "STILL FITS" not in plain[0].plain
    assert "STILL FITS" in partitioned[0].plain
