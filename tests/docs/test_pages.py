"""Every command in README, tutorials and recipes works as written, from an installed wheel in an empty directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Reader, installed

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dray-", dir="/var/tmp") as name:
        yield installed(Path(name))  # not below /tmp, which containers have for themselves


@pytest.fixture
def reader(commands: Path) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="dray-") as name, Reader(Path(name), commands) as reader:
        yield reader  # a short directory: paths of sockets are short


@pytest.mark.wording
@pytest.mark.parametrize(
    ("page", "at_least"),
    [
        ("README.md", 20),
        ("docs/tutorials.md", 15),
        ("docs/how-to.md", 15),
        ("docs/simulation.md", 10),
        ("docs/autoscaling.md", 5),
        ("docs/why-pending.md", 12),
        ("docs/driver.md", 8),
    ],
)
def test_every_command_works_as_written(page: str, at_least: int, reader: Reader) -> None:
    assert reader.follow(ROOT / page) >= at_least
