"""`dray record`: from a cluster and from files, and other commands that read what it wrote."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dray.cli import main
from dray.recordings.recording import from_bytes
from tests.cli.clusters import cluster, furnish
from tests.sim.test_cluster import machines, pod, template


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """What `kubectl get -o json` writes."""
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*machines(2), template(1), pod("p")]}))
    return file


def test_a_cluster_is_recorded_with_who_holds_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recording.json.gz"
    with cluster(tmp_path) as running:
        asyncio.run(furnish(running))
        assert main(["record", "-o", str(file), "--kubeconfig", str(running.admin)]) == 0
        assert f"{file}: 2 Node, 2 ResourceSlice, " in capsys.readouterr().out
        nothing = tmp_path / "nothing.json"
        assert main(["record", "-o", str(nothing), "--kubeconfig", str(running.guest)]) == 1
        assert "you may not list" in capsys.readouterr().err
        assert not nothing.exists()
    made = from_bytes(file.read_bytes())
    assert made.source.startswith("https://")
    claims = {tree["metadata"]["name"]: tree for tree in made.objects if tree["kind"] == "ResourceClaim"}
    assert len(claims["runs"]["status"]["allocation"]["devices"]["results"]) == 2


def test_files_are_recorded_and_lint_reads_the_recording(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recording.json"
    assert main(["record", "-f", str(objects), "-o", str(file), "--anonymous"]) == 0
    assert capsys.readouterr().out == (
        f"{file}: 1 DeviceClass, 2 Node, 2 ResourceSlice, 1 ResourceClaimTemplate, 1 Pod\n"
    )
    assert "gpus-1" not in file.read_text()
    wanted = tmp_path / "claim.yaml"
    wanted.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n"
        "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.exmaple.com}}]}}\n"
    )
    assert main(["lint", "-f", str(wanted), "--recording", str(file)]) == 1
    assert "gpu.exmaple.com" in capsys.readouterr().out


def test_names_that_stay_in_attributes_expressions_and_names_of_devices_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: rack-7}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {schedulerName: ours, containers: []}}\n"
        "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: rack-7,"
        " pool: {name: rack-7, generation: 1, resourceSliceCount: 1}, devices: [{name: rack-7-gpu}]}}\n"
    )
    made = tmp_path / "made.json"
    assert main(["record", "-f", str(file), "-o", str(made), "--anonymous"]) == 0
    assert capsys.readouterr().err.endswith(": rack-7\n")
    assert '"ours"' not in made.read_text()
    assert '"rack-7"' not in made.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"kind":"Recording","version":1,"time', "objects.json: the file is cut off or damaged"),
        (b"\x1f\x8b\x08", "objects.json: the file is cut off or damaged"),
        (b'{"kind": "Recording", "version": 7}', "version: 7 is not known"),
        (b'{"apiVersion": "v1", "kind": "List", "items": []}', "there is nothing to record"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    objects.write_bytes(content)
    assert main(["record", "-f", str(objects), "-o", str(tmp_path / "r.json")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_a_place_that_cannot_be_written_is_named(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "nowhere" / "r.json"
    assert main(["record", "-f", str(objects), "-o", str(place)]) == 2
    assert capsys.readouterr().err == f"dray record: {place}: No such file or directory\n"
