"""A server as its own process, and the real kubectl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Dray
from tests.waiting import SECONDS

KUBECTL = shutil.which("kubectl")


class Kubectl:
    """Runs kubectl in a namespace of its own."""

    def __init__(self, kubeconfig: Path, home: Path, namespace: str) -> None:
        self.namespace = namespace
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}
        self.minor = self._minor()

    def __call__(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """What a command prints; both streams if it `fails`."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=2 * SECONDS,
            check=False,
        )
        assert (done.returncode != 0) is fails, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr if fails else done.stdout

    def command(self, *arguments: str) -> list[str]:
        assert KUBECTL is not None
        return [KUBECTL, "--namespace", self.namespace, *arguments]

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def needs(self, minor: int, what: str) -> None:
        if self.minor < minor:
            pytest.skip(f"kubectl 1.{self.minor} cannot {what}; 1.{minor} can")

    def _minor(self) -> int:
        match = re.search(r'"?[Mm]inor"?: ?"?(\d+)', self("version", "--client", "--output=json"))
        assert match is not None
        return int(match[1])


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("dray")
    gates = "DRAResourcePoolStatus=true,GenericWorkload=true"
    choices = ("--feature-gates", gates, "--runtime-config", "api/all=true")
    with Dray("apiserver", "--dir", directory, "--port", "0", "--store", "memory", *choices):
        yield directory / "kubeconfig"


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Kubectl:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    home = kubeconfig.parent / "home"  # shared, so that discovery is asked for once
    home.mkdir(exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:60]
    kubectl = Kubectl(kubeconfig, home, name)
    kubectl("create", "namespace", name)
    return kubectl
