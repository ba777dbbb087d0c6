"""Keys for the servers of these tests."""

from __future__ import annotations

import pytest

from dray.apiserver.security.certificates import Keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))
