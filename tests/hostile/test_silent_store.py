"""A store that has stopped to answer, such as an etcd that is paused."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from tests.hostile.attackers import attacked


async def test_readiness_is_told_in_time_and_asked_for_once(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(keys, tmp_path, limits=Limits(ready_seconds=0.5)) as server:
        asked = 0

        async def silent() -> int:
            nonlocal asked
            asked += 1
            await asyncio.sleep(3600)
            return 0

        monkeypatch.setattr(server.admin.running._log, "head", silent)
        began = time.monotonic()
        answers = await asyncio.gather(*(server.admin.text("/readyz") for _ in range(20)))
        assert time.monotonic() - began < 5
        assert {code for code, _ in answers} == {500}
        assert "no answer within 0.5 s" in answers[0][1]
        assert asked <= 2  # a late one may ask again
        assert await server.admin.text("/livez") == (200, "ok")
        monkeypatch.undo()
        assert await server.admin.text("/readyz") == (200, "ok")
