"""A short form of `python -m tests.faults.kills`: histories of claim writes are linearizable while servers are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults import kills


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "etcd"])
async def test_no_acknowledged_write_is_lost_when_servers_are_killed(tmp_path: Path, store: str) -> None:
    with kills.victims(tmp_path, store) as made:
        recorder, findings = await kills.run(made, 2, random.Random())
        assert findings == []
        assert recorder.answered > 20, kills.summary(recorder)
        for server in made.servers:
            assert "Traceback" not in server.complaints()
