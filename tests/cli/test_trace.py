"""`dray trace`, and what `dray replay` makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.cli import main
from tests.replay.traces.test_formats import JOB, PODS, TASKS


def replayed(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["replay", str(path), "-o", "json"]) == 0
    run: dict[str, object] = json.loads(capsys.readouterr().out)["runs"][0]
    return run


def test_generated_load_is_replayed_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "day.json.gz"
    words = [
        "--pods",
        "60",
        "--sizes",
        "1:2,2:1",
        "--runtime",
        "9000",
        "--nodes",
        "2",
        "--devices",
        "4",
        "-o",
        str(path),
    ]
    assert main(["trace", "generate", *words]) == 0
    assert capsys.readouterr().out == f"{path}: 60 pods, 2 nodes\n"
    run = replayed(path, capsys)
    assert (run["came"], run["placed"], run["ended"], run["waiting_now"]) == (60, 60, 60, 0)


def test_generated_load_runs_on_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "day.json"
    words = ["--pods", "8", "--profile", "dgx-h100", "--class", "gpu.nvidia.com", "--arrival", "even", "-o", str(path)]
    assert main(["trace", "generate", *words]) == 0
    assert replayed(path, capsys)["placed"] == 8


def test_shares_of_a_public_trace_share_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, machines, path = tmp_path / "tasks.csv", tmp_path / "machines.csv", tmp_path / "t.json"
    tasks.write_bytes(TASKS)
    machines.write_text("m1,V100,96,512,3\n")
    assert main(["trace", "read", "alibaba-2020", str(tasks), "--machines", str(machines), "-o", str(path)]) == 0
    said = capsys.readouterr()
    assert "3 pods, 1 nodes" in said.out
    assert "1 rows say no beginning or end" in said.err
    run = replayed(path, capsys)
    assert (run["placed"], run["devices"]) == (3, 3)
    assert run["waiting"] == {"mean": 0.0, "median": 0.0, "p95": 0.0, "longest": 0.0}


def test_models_of_a_public_trace_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods, machines, path = tmp_path / "pods.csv", tmp_path / "nodes.csv", tmp_path / "t.json"
    pods.write_bytes(PODS)
    machines.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,128000,786432,8,G3\n")
    assert main(["trace", "read", "alibaba-2023", str(pods), "--machines", str(machines), "-o", str(path)]) == 0
    run = replayed(path, capsys)
    assert (run["placed"], run["waiting_now"]) == (1, 1)


def test_a_trace_of_philly_runs_on_simulated_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, path = tmp_path / "cluster_job_log", tmp_path / "t.json"
    jobs.write_text(json.dumps([JOB, JOB]))
    assert main(["trace", "read", "philly", str(jobs), "--nodes", "2", "--limit", "3", "-o", str(path)]) == 0
    assert replayed(path, capsys)["placed"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "--pods", "3"], "there is nothing to run on"),
        (["generate", "--pods", "0", "--nodes", "1"], "pods: expected at least one pod, got 0"),
        (["generate", "--pods", "3", "--nodes", "1", "--runtime", "-1"], "runtime: expected a number above 0, got -1"),
        (["generate", "--pods", "3", "--nodes", "1", "--sizes", "many"], "--sizes many: expected N:WEIGHT"),
        (["generate", "--pods", "3", "--profile", "none"], "there is no profile none"),
        (["read", "philly", "nowhere", "--nodes", "1"], "nowhere"),
    ],
)
def test_what_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["trace", *words, "-o", str(tmp_path / "x")]) == 2
    assert message in capsys.readouterr().err
