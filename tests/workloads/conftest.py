"""Clusters for tests of shared claims."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.workloads.cluster import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Everything runs, every gate of sharing is on."""
    cluster = Cluster()
    await cluster.open()
    yield cluster
    await cluster.close()


@pytest.fixture
async def idle() -> AsyncIterator[Cluster]:
    """Only the API server runs."""
    cluster = Cluster()
    await cluster.open(parts=())
    yield cluster
    await cluster.close()
