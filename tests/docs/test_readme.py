"""The tour in the README works, command by command, with the real kubectl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [
    (r"get nodes$", "node-2   Ready"),
    (r"get resourceslices$", "gpu.example.com"),
    (r"results\[0\].device", "gpu-"),
    (r"results\[\*\].request", "gpu/large"),
    (r"get pod greedy", "request gpus needs 9 devices: 4 published"),
    (r"dray explain", "9"),
    (r"dray top", "node-1"),
    (r"dray allocate", '"allocated"'),
]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


def commands() -> list[str]:
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    dray = [sys.executable, "-m", "dray"]
    process = subprocess.Popen(
        [*dray, "up", "--dir", str(tmp_path), "--port", "0", "--store", "memory", "--nodes", "3", "--devices", "4"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            break
    yield tmp_path / "kubeconfig"
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


def test_the_tour_works_as_written(kubeconfig: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    for command in commands():
        if command.startswith("export "):
            continue
        command = command.replace("/tmp/hardware.yaml", str(tmp_path / "hardware.yaml"))
        command = command.replace(".venv/bin/dray", f"{sys.executable} -m dray")
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        for pattern, expected in EXPECTED:
            if re.search(pattern, command):
                assert expected in done.stdout, command
    assert "No resources found" in done.stderr
