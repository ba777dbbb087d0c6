"""One `dray up` with three simulated nodes for all tests that need a cluster in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.client.config import load
from dray.client.http import Http
from tests.cli.running import Dray
from tests.e2e.audit import Audit
from tests.kubectl.conftest import KUBECTL, Kubectl
from tests.waiting import SECONDS

GATES = "DRAResourcePoolStatus=true,GenericWorkload=true,DRAReservedForWorkloads=true,DRAWorkloadResourceClaims=true"


_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("up")
    options = (
        "--store",
        "memory",
        "--nodes",
        "3",
        "--devices",
        "8",
        "--feature-gates",
        GATES,
        "--runtime-config",
        "api/beta=true",
    )
    with Dray("up", "--dir", directory, "--port", "0", *options), audited(directory / "kubeconfig"):
        yield directory / "kubeconfig"


@contextmanager
def audited(kubeconfig: Path) -> Iterator[None]:
    """Audits a cluster from a thread of its own, for tests that block; what it found is told in the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(SECONDS)

    client = Http(load(str(kubeconfig)))
    audit = Audit(client)
    run(audit.start())
    try:
        yield
    finally:
        run(audit.stop())
        run(client.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert audit.findings == []


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """The real kubectl, in a namespace of the test's own.

    Afterwards its pods and claims are deleted, so that the next test finds all devices free.
    """
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    home = kubeconfig.parent / "home"  # shared, so that discovery is asked for once
    home.mkdir(exist_ok=True)
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = f"{words[:55].strip('-')}-{next(_NUMBERS)}"
    kubectl = Kubectl(kubeconfig, home, name)
    kubectl("create", "namespace", name)
    yield kubectl
    kubectl("delete", "pods,resourceclaims", "--all")
    kubectl("delete", "namespace", name, "--wait=false")
