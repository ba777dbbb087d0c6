"""`kubectl dra`: kubectl finds the plugin on PATH and hands its arguments on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.clusters import Cluster, cluster
from tests.waiting import SECONDS

KUBECTL = shutil.which("kubectl")
PLUGIN = f"#!{sys.executable}\nimport sys\nfrom dray.cli._kubectl import main\nsys.exit(main())\n"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("dray")) as made:
        yield made


@pytest.fixture
def kubectl(running: Cluster, tmp_path: Path) -> list[str]:
    """The beginning of a command line; the plugin is on PATH, as an installation would put it there."""
    plugin = tmp_path / "kubectl-dra"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    assert KUBECTL is not None
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return ["env", f"PATH={path}", f"KUBECONFIG={running.admin}", "COLUMNS=200", KUBECTL, "dra"]


def said(command: list[str], *arguments: str) -> tuple[int, str]:
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout + done.stderr


def test_top_and_explain_run_under_kubectl(kubectl: list[str]) -> None:
    status, text = said(kubectl, "top", "pools")
    assert (status, "2 pools, 8 devices" in text) == (0, True), text
    status, text = said(kubectl, "explain", "pod", "nobody")
    assert status == 1
    assert 'pod "nobody" not found' in text


def test_help_speaks_of_kubectl(kubectl: list[str]) -> None:
    status, text = said(kubectl, "--help")
    assert status == 0
    assert "usage: kubectl dra" in text
    assert "explain" in text
    assert " up " not in text
