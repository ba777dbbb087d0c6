"""A server to attack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.apiserver.security.certificates import Keys
from tests.hostile.attackers import Attacked, attacked


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def server(keys: Keys, tmp_path: Path) -> AsyncIterator[Attacked]:
    """With the limits that every server has."""
    async with attacked(keys, tmp_path) as found:
        yield found
