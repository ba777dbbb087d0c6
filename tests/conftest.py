"""What holds for every test: generated examples are the same in every run, a slow machine is no failure, a stall is one.

A server that a test runs in its own process must not hold its event loop for more than a second of processor time.

`--hypothesis-profile=search` looks for new examples, as many again and again as one likes. `--codes` shows that no program
reads a sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import dray.api.reasons.causes  # noqa: F401  # adds its texts
from dray.api.reasons.wording import TEXTS
from tests.distribution import FileScheduling, longest_first
from tests.stalls import Stalls

# gRPC would otherwise prepare each fork, and a program that a test starts could end before it begins. Set before grpc is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if "-B" not in sys.orig_argv:
    # Images for containers often set this. Every program that a test starts would then compile all modules it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("search", deadline=None, suppress_health_check=SLOW)
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--codes",
        action="store_true",
        help="replace the words of every text of dray.api.reasons.wording by its code, and leave out tests of words",
    )
    parser.addoption(
        "--store",
        choices=("memory", "etcd"),
        default="memory",
        help="what servers within the process of a test store in, unless the test says so; leaves out tests of other stores",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--codes"):
        TEXTS.update({code: " ".join([str(code), *_subjects(text)]) for code, text in TEXTS.items()})


def _subjects(text: str) -> list[str]:
    """The fields of a template, without the words around them."""
    return [f"{{{field}}}" for _, field, _, _ in Formatter().parse(text) if field]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--codes"):
        left_out = [item for item in items if item.get_closest_marker("wording")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if config.getoption("--store") == "etcd":
        left_out = [item for item in items if _needs_another_store(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def _needs_another_store(item: pytest.Item) -> bool:
    """Whether a test is about a store in memory or in SQLite."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return item.get_closest_marker("local_store") is not None or parameters.get("backend", "etcd") != "etcd"


@pytest.hookimpl(optionalhook=True)  # there is no such hook without workers
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    config.option.loadscopereorder = False
    return FileScheduling(config, log)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents in this process take a driver that is away for gone after a moment, not after half a minute."""
    monkeypatch.setattr("dray.node.plugins.AWAY_SECONDS", 0.5)


@pytest.fixture(scope="session", autouse=True)
def _store(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--store etcd`, one etcd for all tests of this process."""
    if request.config.getoption("--store") == "memory":
        yield
        return
    from tests.stores import etcd_instead_of_memory  # here, since most processes of tests need neither server nor gRPC

    place = request.getfixturevalue("tmp_path_factory").mktemp("etcd")
    with pytest.MonkeyPatch.context() as patch, etcd_instead_of_memory(place, patch):
        yield


@pytest.fixture(autouse=True)
def _no_stalls() -> Iterator[None]:
    with Stalls() as stalls:
        yield
    if complaint := stalls.complaint():
        pytest.fail(complaint)
