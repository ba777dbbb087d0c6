"""What short commands import: people run them again and again, and most of their time is imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.testing import Cluster
from tests.e2e.objects import claim, pod, request
from tests.waiting import SECONDS

PROGRAM = """
import sys
from dray.cli import main
status = main(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
sys.exit(status)
"""
# What neither command needs: servers, other clients, what runs nodes and drivers, and what measures all of these.
NEVER = (
    *("aiohttp", "uvloop", "uvicorn", "grpc", "google", "kubernetes", "cryptography", "prometheus_client", "jwt"),
    *(
        "dray.apiserver.wire",
        "dray.apiserver.read",
        "dray.apiserver.admission",
        "dray.background",
        "dray.store",
        "dray.web",
        "dray.node.agent",
        "dray.node.runtimes",
        "dray.driver",
        "dray.rpc",
    ),
    *("dray.scheduler", "dray.autoscaling", "dray.replay", "dray.client.inprocess"),
    *("dray.client.informer", "dray.client.events", "dray.controllers.manager"),
)
# `dray top` counts, and decides nothing. `dray explain` tries suggestions in a simulation.
DECIDING = (
    "dray.apiserver",
    "dray.core",
    "dray.verdicts",
    "dray.cel.selector",
    "dray.cel.parser",
    "dray.allocator.allocation",
    "dray.sim",
    "dray.recordings",
    "dray.node",
)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with Cluster(nodes=1, devices=2) as cluster:
        cluster.apply(claim("large", request(count=3)))
        cluster.apply(pod("waits", claims=["large"]))
        yield cluster.kubeconfig


@pytest.mark.parametrize(
    ("words", "unwanted", "most"),
    [
        (["top", "pools"], (*NEVER, *DECIDING), 140),
        (["top", "claims"], (*NEVER, *DECIDING), 140),
        (["explain", "pod", "waits"], NEVER, 330),
    ],
    ids=["pools", "claims", "explain"],
)
def test_a_short_command_imports_little(
    kubeconfig: Path, words: list[str], unwanted: tuple[str, ...], most: int
) -> None:
    command = [sys.executable, "-c", PROGRAM, *words, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    imported = done.stderr.split()
    assert not [one for one in imported if f"{one}.".startswith(tuple(f"{name}." for name in unwanted))]
    assert len([one for one in imported if one.startswith("dray.")]) <= most
