"""Example files: written where they are asked for, never over what somebody changed, and all of them work."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.testing import Cluster
from tests.cli.running import outcome


def test_files_are_written_and_what_was_changed_stays(tmp_path: Path) -> None:
    status, text = outcome("example", "tour", tmp_path / "t")
    assert (status, [Path(line).name for line in text.splitlines()]) == (
        0,
        ["alternatives.yaml", "pod.yaml", "too-much.yaml"],
    )
    (tmp_path / "t" / "pod.yaml").write_text("mine")
    status, text = outcome("example", "tour", tmp_path / "t")
    assert (status, "pod.yaml is there already and differs" in text) == (0, True)
    assert (tmp_path / "t" / "pod.yaml").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, text = outcome("example", "tour", tmp_path / "file")
    assert (status, str(tmp_path / "file") in text) == (1, True)


@pytest.mark.parametrize("name", ["tour", "workload", "driver", "policies"])
def test_manifests_are_without_findings(tmp_path: Path, name: str) -> None:
    outcome("example", name, tmp_path)
    status, text = outcome("lint", "-f", tmp_path)
    assert status == 0, text


def test_the_workloads_run(tmp_path: Path) -> None:
    outcome("example", "workload", tmp_path)
    with Cluster(nodes=2, devices=4) as cluster:
        for file in sorted(tmp_path.glob("*.yaml")):
            cluster.apply(file)
        cluster.wait("deployments", "inference", lambda one: one["status"].get("readyReplicas") == 3)
        pods = [cluster.wait("pods", name, _runs) for name in ("trainer", "profiler")]
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
        cluster.wait("jobs", "training", lambda one: one["status"].get("active", 0) >= 1)


def _runs(pod: dict[str, object]) -> bool:
    status = pod["status"]
    return isinstance(status, dict) and status.get("phase") == "Running"
