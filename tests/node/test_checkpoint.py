"""The checkpoint: what is written is read again, or kept aside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.node.checkpoint import Checkpoint, CheckpointedDevice, DriverShare, PreparedClaim

DEVICE = CheckpointedDevice(("gpu", "other/sub"), "pool", "gpu-0", ("vendor/class=a",))
CLAIM = PreparedClaim("u1", "default", "c", {"p1": ("entry",)}, (DriverShare("d", (DEVICE,)),))


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "claims.json"
    checkpoint, _ = Checkpoint.open(file)
    checkpoint.put(CLAIM)
    checkpoint.put(PreparedClaim("u2", "n", "c2", {}, (DriverShare("d"),), leaving=True))
    again, problem = Checkpoint.open(file)
    assert (again.claims, problem) == (checkpoint.claims, "")
    again.remove("u1")
    assert [*Checkpoint.open(file)[0].claims] == ["u2"]
    assert {*os.listdir(tmp_path)} == {"claims.json", "claims.json.new"}  # the second has the space for the next state


def test_a_claim_is_prepared_when_every_driver_is_done() -> None:
    assert CLAIM.prepared
    assert not PreparedClaim("u", "n", "c", {}, (DriverShare("d", (DEVICE,)), DriverShare("e"))).prepared
    assert not PreparedClaim("u", "n", "c", {}, (DriverShare("d", (DEVICE,)),), leaving=True).prepared


@pytest.mark.parametrize(
    ("requests", "request_", "serves"),
    [
        (("gpu",), "gpu", True),
        (("gpu/large",), "gpu", True),
        (("gpu/large",), "gpu/large", True),
        (("gpu",), "nic", False),
        (("gpus",), "gpu", False),
        (("a", "gpu"), "gpu", True),
        ((), "gpu", True),
        (("gpu",), "", True),
    ],
)
def test_a_device_serves_the_requests_it_names(requests: tuple[str, ...], request_: str, serves: bool) -> None:
    assert CheckpointedDevice(requests, "p", "d").serves(request_) is serves


@settings(max_examples=40)  # each writes to disk, and waits for it
@given(st.data())
def test_a_damaged_file_is_kept_aside_and_reported(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "claims.json"
        Checkpoint(file).put(CLAIM)
        whole = file.read_bytes()
        position = data.draw(st.integers(0, len(whole) - 1))
        damaged = data.draw(
            st.sampled_from([whole[:position], whole[:position] + b"#" + whole[position + 1 :], b"", b"\xff" * 9])
        )
        file.write_bytes(damaged)
        checkpoint, problem = Checkpoint.open(file)
        kept = file.with_name("claims.json.corrupt-1")
        assert checkpoint.claims == {}
        assert str(kept) in problem
        assert kept.read_bytes() == damaged
        assert not file.exists()


def test_a_file_of_another_version_is_kept_aside(tmp_path: Path) -> None:
    file = tmp_path / "claims.json"
    Checkpoint(file).put(CLAIM)
    tree = json.loads(file.read_bytes())
    file.write_text(json.dumps(tree | {"version": 99}))
    assert "version 99, expected 1" in Checkpoint.open(file)[1]
    Checkpoint(file).put(CLAIM)
    file.write_text("again")
    Checkpoint.open(file)
    kept = {"claims.json.corrupt-1", "claims.json.corrupt-2"}
    assert {*os.listdir(tmp_path)} == kept | {"claims.json.new"}  # the space for the next state


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "gone" / "claims.json")
    with pytest.raises(FileNotFoundError):
        checkpoint.put(CLAIM)
    assert checkpoint.claims == {}
