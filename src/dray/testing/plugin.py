"""Pytest plugin with a fixture that gives every test its own cluster.

A conftest.py must contain `pytest_plugins = ["dray.testing.plugin"]`. (An automatically loaded plugin would make
pytest rewrite the assertions of all of dray.) The marker `dray` sets options of the cluster:
`@pytest.mark.dray(nodes=2, devices=4)`. Modules are imported only when a test uses a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dray.testing.cluster import RunningCluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "dray(**options): options of the cluster of a test, see dray.assembly.ClusterOptions"
    )


@pytest.fixture
def dray_cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Provide a cluster in memory for this test alone."""
    from dray.testing.cluster import RunningCluster

    options = {name: value for marker in request.node.iter_markers("dray") for name, value in marker.kwargs.items()}
    with RunningCluster(**options) as cluster:
        yield cluster
