"""`dray what-if` on recordings and on a real cluster, which it leaves as it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.cli import main
from dray.client.config import load
from dray.client.http import Http
from tests.cli.clusters import Cluster, cluster, furnish
from tests.sim.test_cluster import machines, pod, template


def write(file: Path, *trees: Any) -> str:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    return str(file)


@pytest.fixture
def recording(tmp_path: Path) -> str:
    objects = write(tmp_path / "objects.json", *machines(2), template(1), template(2))
    file = str(tmp_path / "recording.json.gz")
    assert main(["record", "-f", objects, "-o", file]) == 0
    return file


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    return write(tmp_path / "manifest.json", pod("wanted", 2))


def test_a_recording_is_asked(recording: str, manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["what-if", "-f", manifest, "--recording", recording, "--how-many", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert [len(one["devices"]) for one in found["pods"]] == [2]
    assert (found["howMany"]["copies"], found["howMany"]["complete"]) == (2, True)
    assert found["howMany"]["endedBy"]["reasons"] == [
        {"rule": "DynamicResources", "code": "cannot-allocate", "subject": "", "nodes": 2}
    ]


def test_who_would_be_preempted_is_told(recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def of(name: str, priority: int) -> Any:
        tree = pod(name, 2)
        return {**tree, "spec": {**tree["spec"], "priority": priority}}

    full = write(tmp_path / "full.json", *(of(f"small-{n}", n) for n in range(2)))
    more = str(tmp_path / "full-recording.json.gz")
    assert main(["record", "-f", full, "-o", more]) == 0
    wanted = write(tmp_path / "important.json", of("wanted", 10))
    capsys.readouterr()
    options = ["--recording", recording, "--recording", more]
    assert main(["what-if", "-f", wanted, *options, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["preempted"] == [{"pod": "default/small-0", "by": "default/wanted"}]
    assert found["pods"][0]["node"]


@pytest.mark.wording
def test_where_a_pod_finds_no_place_the_status_is_1(
    recording: str, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    taints = [word for node in ("node-0", "node-1") for word in ("--taint", node, "closed:NoSchedule")]
    assert main(["what-if", "-f", manifest, "--recording", recording, *taints]) == 1
    assert "pod default/wanted finds no place: 0/2 nodes are available" in capsys.readouterr().out


def test_a_cluster_is_asked_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def contents(running: Cluster) -> list[Any]:
        async with Http(load(str(running.admin))) as client:
            return [(await client.list(type_)).items for type_ in (Pod, ResourceClaim)]

    manifest = write(tmp_path / "manifest.json", template(2), pod("wanted", 2))
    with cluster(tmp_path) as running:
        asyncio.run(furnish(running))
        before = asyncio.run(contents(running))
        options = ["--kubeconfig", str(running.admin), "--drain", "node-0"]
        code = main(["what-if", "-f", manifest, "--how-many", "-o", "json", *options])
        assert asyncio.run(contents(running)) == before
    found = json.loads(capsys.readouterr().out)
    on_first = any(one.spec.nodeName == "node-0" for one in before[0])
    assert [one["pod"] for one in found["moved"]] == (["default/runs"] if on_first else [])
    assert (code, found["howMany"]["copies"]) == (0, 1)  # `runs` has two of the four devices that are left
    assert found["pods"][0]["node"] == "node-1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected -f MANIFEST, --drain NODE"),
        (["--drain", "n", "--how-many"], "--how-many needs -f MANIFEST"),
        (["-f", "MANIFEST", "--add-nodes", "2"], "--add-nodes N and --like NODE belong together"),
        (["-f", "MANIFEST", "--add-nodes", "2", "--like", "n"], "there is no node n"),
        (["--drain", "n"], "there is no node n"),
        (["-f", "missing.yaml"], "missing.yaml"),
        (["-f", "MANIFEST", "--profile", "dgx*2"], "there is no profile dgx; there are cpu, dgx-h100"),
        (["-f", "RECORDING"], "the manifest asks for nothing"),
    ],
)
def test_what_makes_no_question_is_refused(
    recording: str, manifest: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [{"MANIFEST": manifest, "RECORDING": recording}.get(word, word) for word in arguments]
    assert main(["what-if", "--recording", recording, *given]) == 2
    assert message in capsys.readouterr().err


def test_a_recording_that_is_cut_off_is_refused(
    recording: str, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = Path(recording).read_bytes()
    Path(recording).write_bytes(content[: len(content) // 2])
    assert main(["what-if", "-f", manifest, "--recording", recording]) == 2
    assert f"{recording}: the file is cut off or damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "there is no object in it"), (b"\xe9\xe9", "expected a recording, JSON or YAML")]
)
def test_a_file_that_is_no_cluster_is_refused(
    recording: str, manifest: str, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    Path(recording).write_bytes(content)
    assert main(["what-if", "-f", manifest, "--recording", recording]) == 2
    assert f"{recording}: {message}" in capsys.readouterr().err
