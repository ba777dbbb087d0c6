"""`dray top` against a real cluster, as an administrator and as somebody who may not read claims."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from dray.api.types.resource import ResourcePoolStatusRequest
from dray.cli import main
from dray.cli._table import ShareBar, bar
from dray.cli._top_tables import picture
from dray.client.config import load
from dray.client.http import Http
from dray.questions import GroupRow
from tests.cli.clusters import DRIVER, Cluster, cluster, furnish
from tests.cli.running import DRAY, heed_interrupts
from tests.waiting import SECONDS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("dray")) as made:
        asyncio.run(furnish(made))
        yield made


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")


def test_pools(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "pools", "--kubeconfig", str(running.admin)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "DRIVER",
        "POOL",
        "NODE",
        "TOTAL",
        "ALLOCATED",
        "AVAILABLE",
        "UNAVAILABLE",
        "UTILISATION",
    ]
    half = next(line for line in lines if " 50 %" in line)
    assert half.split()[3:7] == ["4", "2", "2", "0"]
    assert "██████████░░░░░░░░░░" in half
    assert lines[-1] == "2 pools, 8 devices: 2 allocated, 6 available, 0 unavailable"


def test_who_may_not_read_claims_gets_the_same_numbers(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "pools", "-o", "json", "--kubeconfig", str(running.admin)]) == 0
    read = json.loads(capsys.readouterr().out)
    assert main(["top", "pools", "-o", "json", "--driver", DRIVER, "--kubeconfig", str(running.guest)]) == 0
    assert json.loads(capsys.readouterr().out) == read
    assert asyncio.run(_requests(running)) == 0  # it cleans up


async def _requests(running: Cluster) -> int:
    async with Http(load(str(running.admin))) as client:
        return len((await client.list(ResourcePoolStatusRequest)).items)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("pools", "say which driver with --driver NAME"),
        ("devices", "you may not list resourceclaims; `dray top pools`"),
        ("claims", "you may not list resourceclaims; give a namespace"),
    ],
)
def test_what_a_guest_cannot_see_is_said(
    running: Cluster, capsys: pytest.CaptureFixture[str], what: str, says: str
) -> None:
    assert main(["top", what, "--kubeconfig", str(running.guest)]) == 1
    assert says in capsys.readouterr().err


def test_devices(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "devices", "-o", "yaml", "--kubeconfig", str(running.admin)]) == 0
    rows = yaml.safe_load(capsys.readouterr().out)
    assert len(rows) == 8
    taken = [row for row in rows if row["state"] == "allocated"]
    assert [row["claim"] for row in taken] == ["default/runs"] * 2
    assert taken[0]["used_by"] == ["pod/runs"]
    assert taken[0]["capacity"] == {"memory": "40Gi"}
    assert main(["top", "devices", "-o", "wide", "--kubeconfig", str(running.admin)]) == 0
    assert "memory=40Gi" in capsys.readouterr().out
    assert (
        main(["top", "devices", "--driver", "other.example.com", "-o", "json", "--kubeconfig", str(running.admin)]) == 0
    )
    assert json.loads(capsys.readouterr().out) == []


def test_claims(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "claims", "--kubeconfig", str(running.admin)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["default", "runs", "allocated,reserved", "2"],
        ["default", "waits", "pending", "5"],
    ]
    assert main(["top", "claims", "-n", "kube-system", "-o", "json", "--kubeconfig", str(running.admin)]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_watching_draws_again_until_interrupted(running: Cluster) -> None:
    command = [*DRAY, "top", "pools", "--watch", "--interval", "0.2", "--kubeconfig", str(running.admin)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stdout is not None
        pictures = (line for line in process.stdout if "2 pools, 8 devices" in line)
        assert next(pictures)
        assert next(pictures)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 130


def test_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "pools", "--watch", "-o", "json"]) == 2
    assert "--watch draws a table" in capsys.readouterr().err
    assert main(["top", "pools", "--watch", "--interval", "0"]) == 2
    assert "--interval: expected more than 0 seconds" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "full"), [(0.0, 0), (0.5, 10), (1.0, 20)])
def test_a_bar_is_as_full_as_its_share(share: float, full: int) -> None:
    assert bar(ShareBar(share)).plain.count("█") == full


def test_a_bar_shows_what_nobody_can_have_and_what_is_not_healthy() -> None:
    drawn = bar(ShareBar(0.5, lost=0.01, unhealthy=0.25))
    assert drawn.plain.startswith("██████████▒░")
    styles = {str(span.style): drawn.plain[span.start : span.end] for span in drawn.spans}
    assert styles["red"] == "█████"
    assert not any("red" in str(style) for style in (bar(ShareBar(1.0)).style, *bar(ShareBar(1.0)).spans))


def test_nodes(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "nodes", "--sort-by", "allocated", "--kubeconfig", str(running.admin)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["NODE", "DRIVER", "TOTAL"]
    assert [line.split()[3] for line in lines[1:3]] == ["2", "0"]
    assert lines[-1] == "2 nodes, 8 devices: 2 allocated, 6 available, 0 unavailable"


def test_groups_of_a_cluster_that_serves_none(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "groups", "--kubeconfig", str(running.admin)]) == 1
    assert "does not serve podgroups" in capsys.readouterr().err
    assert main(["top", "groups", "--driver", DRIVER]) == 2


def test_groups_are_drawn_with_what_they_wait_for() -> None:
    row = GroupRow("default", "g", "gang", 4, 4, 2, "waiting", "rack", "r1", ("a", "b", "c"), "not yet", "w", "")
    title, line, remark = (text.plain for text in picture("groups", [row], 40, wide=False))
    assert title.split() == ["NAMESPACE", "NAME", "POLICY", "STATE", "PLACED", "DOMAIN", "NODES"]
    assert line.split() == ["default", "g", "gang", "of", "4", "waiting", "2/4", "r1", "a,", "b", "+1"]
    assert remark.strip(" └") == "not yet"


def test_what_has_no_namespace_is_not_asked_for_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("pools", "nodes", "devices"):
        assert main(["top", what, "-n", "nosuch"]) == 2
        assert f"{what} belong to no namespace" in capsys.readouterr().err
    assert main(["top", "claims", "-A", "-n", "x"]) == 2
    assert "not both" in capsys.readouterr().err
    assert main(["top", "claims", "--sort-by", "size"]) == 2
    assert "--sort-by: expected one of namespace, name" in capsys.readouterr().err


def test_claims_of_all_namespaces_and_of_one_without_any(running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "claims", "-A", "--sort-by", "devices", "--kubeconfig", str(running.admin)]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["runs", "waits"]
    assert main(["top", "claims", "-n", "kube-system", "--kubeconfig", str(running.admin)]) == 0
    assert capsys.readouterr().err == "no claims in namespace kube-system\n"
    assert main(["top", "claims", "-n", "nosuch", "--kubeconfig", str(running.admin)]) == 1
    assert capsys.readouterr().err == "dray top: namespace nosuch does not exist\n"
