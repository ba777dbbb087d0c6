"""The kubectls that users have: old ones speak SPDY, recent ones WebSockets, and SPDY when they are told to."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.waiting import SECONDS

PROGRAMS = Path(__file__).parents[1] / ".venv/programs"
_SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
NAMES = ("old", "recent", "recent, SPDY")


@dataclass
class Kubectl:
    """One of them, for one cluster."""

    name: str
    kubeconfig: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def words(self) -> list[str]:
        program = PROGRAMS / ("kubectl-old" if self.name == "old" else "kubectl")
        return [str(program), f"--kubeconfig={self.kubeconfig}"]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=2 * SECONDS,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout


def kubectl_of(name: str, kubeconfig: Path) -> Kubectl:
    """A kubectl by name; a test that needs one which is not there is skipped."""
    kubectl = Kubectl(name, kubeconfig)
    if not Path(kubectl.words[0]).exists():
        pytest.skip(f"there is no {name} kubectl")
    if "SPDY" in name:
        kubectl.environment |= _SPDY
    return kubectl
