"""The tour in the README works, command by command, with the real kubectl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import SECONDS, wait_until

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


@contextmanager
def running(*arguments: str | Path) -> Iterator[None]:
    """A program of this Python that says `ready`, until the end of the block."""
    process = subprocess.Popen([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.strip() == "ready":
                break
        yield
    finally:
        process.terminate()
        assert process.wait(SECONDS) == 0
        process.stdout.close()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    up = ("-m", "dray", "up", "--dir", tmp_path, "--port", "0", "--store", "memory", "--nodes", "3", "--devices", "4")
    with running(*up):
        yield tmp_path / "kubeconfig"


def test_the_tour_works_as_written(kubeconfig: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}
    for command in commands():
        if command.startswith("export "):
            continue
        command = command.replace("/tmp/", f"{tmp_path}/")
        expected = [text for pattern, text in EXPECTED if re.search(pattern, command)]
        if expected:
            eventually(command, expected, environment)
        else:
            done = run(command, environment)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    eventually(command, ["No resources found"], environment)


def run(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * SECONDS
    )


def eventually(command: str, expected: list[str], environment: dict[str, str]) -> None:
    """Wait until a command says what is expected: who types waits longer than a program between two of them."""
    said = ""

    def look() -> bool:
        nonlocal said
        done = run(command, environment)
        said = done.stdout + done.stderr
        return done.returncode == 0 and all(text in said for text in expected)

    try:
        wait_until(look)
    except AssertionError:
        raise AssertionError(f"{command}\n{said}") from None


@pytest.mark.slow
def test_the_driver_of_forty_lines_gives_a_pod_its_device() -> None:
    section = (ROOT / "README.md").read_text().partition("## A driver of your own")[2].partition("\n## ")[0]
    up, driver, kubectl = re.findall(r"```\n(.*?)```", section, re.S)
    options = re.fullmatch(r'make up DIR=(\S+) ARGS="(.*)"', up.strip())
    assert options is not None  # a directory of its own: the nodes of the tour stay in that of the tour
    directory, arguments = options.groups()
    assert (driver.split()[0], kubectl.splitlines()[0]) == (
        f"KUBECONFIG={directory}/kubeconfig",
        f"export KUBECONFIG=$PWD/{directory}/kubeconfig",
    )
    with tempfile.TemporaryDirectory(prefix="dray-") as name:  # socket paths are short
        home = Path(name)
        environment = {**os.environ, "KUBECONFIG": f"{home}/kubeconfig"}
        with running("-m", "dray", "up", "--dir", home, "--port", "0", "--store", "memory", *arguments.split()):
            words = driver.split()[1:]
            command = [sys.executable, *(word.replace(directory, name) for word in words[1:])]
            process = subprocess.Popen(command, cwd=ROOT, env=environment)
            try:
                for line in kubectl.splitlines()[1:]:
                    wanted, _, expected = line.partition("#")
                    text = {"get": "telescope", "apply": "pod/astronomer"}.get(wanted.split()[1], expected.strip())
                    eventually(wanted, [text], environment)
            finally:
                process.terminate()
                process.wait(SECONDS)
