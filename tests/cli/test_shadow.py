"""`dray scheduler --shadow` as a process: its report, its page and its recording, with a user who may only read."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import MethodNotAllowed
from dray.api.types.coordination import Lease
from dray.api.types.core import Event, Pod
from dray.cli import _shadow, main
from dray.client.config import load
from dray.client.http import Http
from dray.testing.cluster import RunningCluster
from tests.cli.components import fetched, node_of
from tests.cli.running import DRAY, Dray, outcome
from tests.cli.test_permissions import as_user
from tests.e2e.objects import pod
from tests.permissions import allow
from tests.scheduler.test_shadow import READS
from tests.waiting import SECONDS, eventually


async def test_it_reports_in_text_json_and_as_a_page_and_records(tmp_path: Path) -> None:
    page, recording = tmp_path / "page.html", tmp_path / "recording"
    with RunningCluster(store="memory", nodes=2) as cluster:
        config = as_user(cluster.kubeconfig, "shadow", tmp_path / "config")
        async with Http(load(str(cluster.kubeconfig))) as admin:
            await allow(admin, "shadow", *READS)
            options = ("--kubeconfig", config, "--port", "0", "--html", page, "--record", recording)
            with Dray("scheduler", "--shadow", *options) as shadow:
                await admin.create(Pod, pod("p"), namespace="default")
                await eventually(lambda: node_of(admin, "p"))
                await eventually(lambda: 'dray_shadow_pods_total{result="' in fetched(shadow, "/metrics"))
                shadow.process.send_signal(signal.SIGTERM)
                said, errors = shadow.process.communicate(timeout=SECONDS)
                assert shadow.process.returncode == 0, errors
            names = [lease.metadata.name for lease in (await admin.list(Lease, "kube-system")).items]
            events = [one.source.component for one in (await admin.list(Event)).items]
    assert "1 pod compared" in said
    assert "1  the same node" in said or "1  another node that is as good" in said
    assert "the same node" in page.read_text()
    assert "dray-scheduler" not in names
    assert [name for name in events if "shadow" in name] == []
    code, told = outcome("replay", recording)
    assert code == 0, told


def test_json_is_all_that_stdout_has(tmp_path: Path) -> None:
    with RunningCluster(store="memory") as cluster:
        words = ["--kubeconfig", str(cluster.kubeconfig), "--port", "-1", "--seconds", "0.1", "-o", "json"]
        done = subprocess.run(
            [*DRAY, "scheduler", "--shadow", *words], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    assert json.loads(done.stdout)["pods"] == []
    assert "ready" in done.stderr


async def test_its_client_sends_no_write(tmp_path: Path) -> None:
    with RunningCluster(store="memory") as cluster:
        async with Http(load(str(cluster.kubeconfig)), read_only=True) as client:
            for write in (
                client.create(Pod, pod("p"), namespace="default"),
                client.update(Pod, pod("p")),
                client.patch(Pod, "p", {}, "default"),
                client.delete(Pod, "p", "default"),
                client.delete_collection(Pod, "default"),
            ):
                with pytest.raises(MethodNotAllowed, match="this client only reads"):
                    await write
            assert not (await client.list(Pod)).items


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--seconds", "3"], "need --shadow"), (["--shadow", "--seconds", "0"], "expected a number above 0")],
)
def test_options_that_make_no_sense_are_explained(options: list[str], text: str) -> None:
    code, said = outcome("scheduler", *options)
    assert code == 2
    assert text in said


def test_the_command_asks_for_a_client_that_only_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def component(*arguments: Any, **options: Any) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(_shadow, "run_part", component)
    assert main(["scheduler", "--shadow"]) == 0
    assert asked == [{"read_only": True}]
