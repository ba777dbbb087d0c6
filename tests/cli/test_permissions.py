"""Parts that run alone with a user's permissions: what they say, and that they are not ready."""

from __future__ import annotations

import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from dray.api.types.coordination import Lease
from dray.api.types.core import Pod
from dray.client.config import load
from dray.client.http import Http
from dray.testing.cluster import RunningCluster
from tests.cli.components import fetched, node_of
from tests.cli.running import DRAY, Dray
from tests.cli.test_scheduler import configuration
from tests.e2e.objects import pod
from tests.permissions import EVERYTHING, READ, allow, rule
from tests.waiting import SECONDS, eventually


def as_user(kubeconfig: Path, name: str, path: Path) -> Path:
    """A kubeconfig of the administrator who acts as a user."""
    tree = yaml.safe_load(kubeconfig.read_text())
    tree["users"][0]["user"]["as"] = name
    path.write_text(yaml.safe_dump(tree))
    return path


def begun(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def readyz(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_without_its_lease_the_scheduler_says_so_is_not_ready_and_begins_when_it_may(tmp_path: Path) -> None:
    with RunningCluster(store="memory") as cluster:
        config = as_user(cluster.kubeconfig, "s", tmp_path / "config")
        async with Http(load(str(cluster.kubeconfig))) as admin:
            readable = rule("*", "*", verbs=READ)
            await allow(admin, "s", readable)
            words = [*DRAY, "scheduler", "--kubeconfig", str(config), "--port", "0"]
            process = begun(words)
            assert process.stdout is not None
            assert process.stderr is not None
            [address] = [word for word in process.stdout.readline().split() if word.startswith("http://127")]
            problem = next(line for line in process.stderr if "lease" in line)
            assert "the lease kube-system/dray-scheduler cannot be used" in problem
            status, text = readyz(address.removesuffix("/metrics"))
            assert status == 503
            assert 'cannot create resource "leases"' in text
            await allow(admin, "s", EVERYTHING)
            assert process.stdout.readline() == "ready\n"
            assert readyz(address.removesuffix("/metrics")) == (200, "ok")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0


async def test_schedulers_with_leases_of_their_own_do_not_wait_for_each_other(tmp_path: Path) -> None:
    def config(name: str, **fields: Any) -> Path:
        path = configuration(tmp_path / name, {"schedulerName": name})
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | fields))
        return path

    with RunningCluster(store="memory") as cluster:
        connection = {"kubeconfig": str(cluster.kubeconfig), "qps": 100, "burst": 200}
        first = config("one", clientConnection=connection, leaderElection={"resourceName": "one"})
        second = config("two", clientConnection=connection, leaderElection={"leaderElect": False})
        async with Http(load(str(cluster.kubeconfig))) as admin:
            cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
            status = {"status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready"}]}}
            cluster.patch("nodes", "n", status, subresource="status")
            options = ("--port", "0")
            with Dray("scheduler", "--config", first, *options), Dray("scheduler", "--config", second, *options) as two:
                for name in ("one", "two"):
                    await admin.create(Pod, pod(name, schedulerName=name), namespace="default")

                    async def placed(name: str = name) -> bool:
                        return bool(await node_of(admin, name))

                    await eventually(placed)
                assert fetched(two, "/readyz") == "ok"
            names = [lease.metadata.name for lease in (await admin.list(Lease, "kube-system")).items]
    assert "one" in names
    assert "dray-scheduler" not in names
