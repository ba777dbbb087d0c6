"""Real Helm and kubectl against a cluster of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dray.testing import Cluster
from tests.waiting import SECONDS

CHARTS = Path(__file__).parent
PROGRAMS = Path(__file__).parents[2] / ".venv/programs"


def run(cluster: Cluster, program: str, *words: str) -> str:
    """What a program prints; it must succeed."""
    command = [str(PROGRAMS / program), f"--kubeconfig={cluster.kubeconfig}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
