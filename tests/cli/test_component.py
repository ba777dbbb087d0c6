"""Parts that run alone say what they wait for, and are ready only when the server answers them."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.running import DRAY, Dray
from tests.ports import free_port
from tests.waiting import SECONDS


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, since sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as name:
        yield Path(name)


def kubeconfig(path: Path, server: str, **user: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return path


COMMANDS = {
    "scheduler": ("scheduler", "--no-leader-elect", "--port", "-1"),
    "controllers": ("controller-manager", "--no-leader-elect", "--port", "-1"),
    "node": ("node", "--name", "n", "--runtime", "fake", "--root", "root", "--port", "-1"),
    "driver": ("driver", "example", "gpu", "--node", "n", "--root", "root"),
}


@pytest.mark.parametrize("part", COMMANDS)
def test_a_dead_server_is_named_and_nothing_is_ready(root: Path, part: str) -> None:
    config = kubeconfig(root / "config", f"https://127.0.0.1:{free_port()}")
    process = subprocess.Popen(
        [*DRAY, *COMMANDS[part], "--kubeconfig", str(config)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    said = next(line for line in process.stderr if "waits for the API server" in line)
    assert "127.0.0.1" in said
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=SECONDS)
    assert "ready" not in out.splitlines()
    assert process.returncode == 0


def test_a_wrong_token_is_named(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path / "up", "--port", "0", "--store", "memory"):
        server = yaml.safe_load((tmp_path / "up" / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        config = kubeconfig(tmp_path / "config", server, token="wrong")
        words = [*DRAY, *COMMANDS["scheduler"], "--kubeconfig", str(config)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "Unauthorized" in next(line for line in process.stderr if "waits for" in line)
        process.terminate()
        assert "ready" not in process.communicate(timeout=SECONDS)[0].splitlines()
