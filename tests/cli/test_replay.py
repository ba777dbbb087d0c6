"""`dray record --follow` and `dray replay`, as programs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.cli import main
from dray.recordings.history import history_from_bytes
from dray.replay.replaying import Replay
from dray.testing import Cluster
from tests.cli.running import heed_interrupts
from tests.replay.test_replay import comes
from tests.sim.test_cluster import pod, template
from tests.waiting import SECONDS, wait_until

EDITED = b'"name":"edited"'


@pytest.fixture(scope="module")
def live() -> Iterator[Cluster]:
    with Cluster(nodes=2, devices=2) as cluster:
        cluster.apply(template(1))
        yield cluster


@contextmanager
def following(cluster: Cluster, path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    words = ["record", "--follow", "-o", str(path), "--kubeconfig", str(cluster.kubeconfig), *options]
    command = [sys.executable, "-m", "dray", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    assert process.stdout is not None
    try:
        assert "2 Node" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stdout.close()


def happens(cluster: Cluster, path: Path, name: str) -> None:
    """A pod comes, with secrets of its own, and is in the file."""
    tree = pod(name, 1)
    tree["metadata"]["annotations"] = {"note": "hunter2"}
    tree["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
    cluster.apply(tree)
    cluster.wait("pods", name, lambda found: bool(found["spec"].get("nodeName")))
    cluster.delete("pods", name)
    wait_until(lambda: f'"kind":"Pod","name":"{name}"'.encode() in path.read_bytes())


def test_ctrl_c_ends_a_recording_that_replays(
    live: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "followed.json"
    with following(live, path) as process:
        happens(live, path, "polite")
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
        assert process.stdout is not None
        assert "changes in" in process.stdout.read()
    assert b"hunter2" not in path.read_bytes()
    assert main(["replay", str(path), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placements"], found["runs"][0]["placed"]) == ({"same": 1, "different": []}, 1)


def test_a_killed_recording_replays_and_one_that_is_cut_off_says_so(
    live: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "followed.json"
    with following(live, path) as process:
        happens(live, path, "killed")
        process.kill()
        process.wait(SECONDS)
    assert main(["replay", str(path)]) == 0
    assert "1 the same, 0 different" in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-10])
    assert main(["replay", str(path)]) == 0
    assert "is cut off; replaying the" in capsys.readouterr().err


def test_a_recording_ends_by_itself_and_hides_names(live: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "followed.json.gz"
    with following(live, path, "--anonymous", "--seconds", "0.5") as process:
        assert process.wait(SECONDS) == 0
    found = history_from_bytes(path.read_bytes())
    assert (found.recording.anonymous, found.recording.followed) == (True, True)
    assert not [tree for tree in found.recording.objects if tree["metadata"]["name"] == "node-0"]


def test_other_commands_read_a_followed_recording_as_it_was_last(
    live: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "followed.json"
    with following(live, path):
        live.apply(template(2))
        wait_until(lambda: b'"gpus-2"' in path.read_bytes())
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(pod("asks", 2)))
    assert main(["lint", "-f", str(manifest), "--recording", str(path)]) == 0
    assert main(["what-if", "-f", str(manifest), "--recording", str(path)]) == 0
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    manifest.write_text(json.dumps({**claim, "spec": {"devices": {"requests": [request]}}}))
    capsys.readouterr()
    assert main(["allocate", "-f", str(path), "-f", str(manifest), "--node", "node-1", "-o", "json"]) == 0
    assert '"allocated"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "x"], "--price x: expected AMOUNT"),
        (["--price", "a:3"], "--price a:3: expected AMOUNT"),
        (["--add-nodes", "2"], "belong together"),
        (["--add-nodes", "2", "--like", "n7"], "there is no node n7"),
        (["--profile", "nothing"], "there is no profile nothing"),
        (["--feature-gates", "Nope=true"], "Nope"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", "/dev/null"], "/dev/null: expected a regular file, found a device"),
    ],
)
def test_changes_that_cannot_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    path = written(tmp_path)
    assert main(["replay", str(path), *options]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_configuration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.touch()
    assert main(["replay", str(written(tmp_path)), "--config", str(empty)]) == 2
    assert f"{empty}: expected apiVersion kubescheduler.config.k8s.io/v1" in capsys.readouterr().err


def written(tmp_path: Path) -> Path:
    from dray.api.manifests import object_of
    from dray.recordings.history import HistoryFile
    from dray.recordings.recording import record
    from tests.replay.test_replay import GATES, TEMPLATES
    from tests.sim.test_cluster import machines

    path = tmp_path / "made.json"
    objects = [object_of(tree, GATES) for tree in (*machines(2, 2), *TEMPLATES)]
    file = HistoryFile(str(path), record(objects, time="2026-01-01T00:00:00Z", source="test"))
    file.write([comes(float(number), f"p{number}", 2, 10.0) for number in range(5)])
    file.close()
    return path


def test_a_change_is_compared_with_how_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = written(tmp_path), tmp_path / "page.html"
    options = ["--add-nodes", "1", "--like", "node-0", "--price", "kubernetes.io/os=linux:2.5", "--html", str(page)]
    assert main(["replay", str(path), *options]) == 0
    said = capsys.readouterr().out
    assert "as it was" in said
    assert "with the change" in said
    assert "<svg" in page.read_text()
    assert main(["replay", str(path), *options, "-o", "json"]) == 0
    before, after = json.loads(capsys.readouterr().out)["runs"]
    assert (before["nodes"], after["nodes"], before["placed"], after["placed"]) == (2, 3, 5, 5)
    assert after["waiting"]["mean"] < before["waiting"]["mean"]
    assert before["cost"]["total"] == pytest.approx(2 * 2.5 * before["seconds"] / 3600)


def test_ctrl_c_gives_the_report_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(replay: Replay) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Replay, "_run_out", interrupted)
    assert main(["replay", str(written(tmp_path))]) == 0
    said = capsys.readouterr()
    assert "broken off; these are the figures so far" in said.err
    assert "broken off" in said.out


def test_files_that_cannot_be_replayed_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"name":"p3"', EDITED))
    assert main(["replay", str(path)]) == 2
    assert "line 5 was edited" in capsys.readouterr().err
    path.write_bytes(content[: content.index(b"\n") + 1])
    assert main(["replay", str(path)]) == 2
    assert "nothing happens in it" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "none")]) == 2
    assert main(["record", "--follow", "-f", str(path), "-o", "x"]) == 2
    assert main(["record", "--seconds", "3", "-f", str(path), "-o", "x"]) == 2
