"""A server with a dashboard, and somebody who looks at it as the administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.apiserver.security.certificates import Keys
from tests.web.serving import Browser, Served, browser, served


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def server(tmp_path: Path, keys: Keys) -> AsyncIterator[Served]:
    async with served(tmp_path, keys) as running:
        yield running


@pytest.fixture
async def admin(server: Served) -> AsyncIterator[Browser]:
    """Signed in with a code."""
    async with browser(server.origin) as window:
        await window.sign_in(code=server.code())
        yield window
