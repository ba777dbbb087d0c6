"""One `dray up` with three simulated nodes for all tests that need a cluster in a process of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Dray
from tests.kubectl.conftest import KUBECTL, Kubectl

GATES = "DRAResourcePoolStatus=true,GenericWorkload=true,DRAReservedForWorkloads=true,DRAWorkloadResourceClaims=true"


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("up")
    options = ("--store", "memory", "--nodes", "3", "--devices", "8", "--feature-gates", GATES)
    with Dray("up", "--dir", directory, "--port", "0", *options):
        yield directory / "kubeconfig"


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """The real kubectl, in a namespace of the test's own that is deleted afterwards."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    home = kubeconfig.parent / "home"  # shared, so that discovery is asked for once
    home.mkdir(exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:60].strip("-")
    kubectl = Kubectl(kubeconfig, home, name)
    kubectl("create", "namespace", name)
    yield kubectl
    kubectl("delete", "namespace", name)
