"""A short form of `make faults`: a small cluster on three etcd members, with a few faults of each kind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.run import run


@pytest.mark.slow
async def test_a_cluster_on_etcd_survives_faults(tmp_path: Path) -> None:
    report = await run(tmp_path, seconds=6, nodes=30, rate=5, dice=random.Random())
    assert report.findings == [], "\n".join(report.lines)
    assert "survived" in report.lines[1]
