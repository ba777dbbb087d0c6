"""How tests are spread over workers: one worker runs a file, so that what its tests share is made once, and the files that
take longest come first, so that all workers end together.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling

# Files that take more than some ten seconds, the longest first. `tools/run-tests` prints the slowest tests.
LONGEST: tuple[str, ...] = (
    "tests/cli/test_driver.py",
    "tests/docs/test_pages.py",
    "tests/cli/test_clusters.py",
    "tests/cli/test_kill.py",
    "tests/web/pages/test_looking.py",
    "tests/web/pages/test_scale.py",
    "tests/e2e/test_kills.py",
    "tests/kubectl/test_daemonset.py",
    "tests/node/test_agent.py",
    "tests/kubectl/test_workloads.py",
)


class FileScheduling(LoadScopeScheduling):
    """Gives whole files to workers, in the order of the collected tests."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    return sorted(items, key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))
