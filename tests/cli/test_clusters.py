"""Clusters in the background: up, status, list, down and delete, as a user meets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.running import DRAY
from tests.waiting import SECONDS, wait_until


class Shell:
    """A user with a home directory of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "KUBECONFIG": ""}

    def dray(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [*DRAY, *words], cwd=self.home, env=self._env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for words in ((), ("--name", "ci")):
        shell.dray("delete", *words)


def start(shell: Shell, *words: str) -> str:
    status, text = shell.dray("up", "--port", "0", "--detach", *words)
    assert status == 0, text
    return text


def test_a_cluster_runs_in_the_background_until_it_is_told_to_end(shell: Shell) -> None:
    said = start(shell, "--nodes", "2", "--devices", "3")
    assert "2 simulated nodes × 3 devices" in said
    assert "Stop it with `dray down`." in said
    status, text = shell.dray("status")
    assert (status, "answers: 2 nodes" in text) == (0, True), text
    assert re.search(r"dashboard \(this address admits one browser\): https://\S+/dashboard/#code=\S+", text), text
    assert "running" in shell.dray("list")[1]
    status, text = shell.dray("up", "--port", "0")
    assert (status, "is already running" in text) == (1, True), text
    assert shell.dray("down")[0] == 0
    assert shell.dray("status")[0] == 3
    assert "stopped" in shell.dray("list")[1]
    assert shell.dray("down")[0] == 0  # once more is no error


def test_state_is_taken_over_and_said_to_be(shell: Shell) -> None:
    start(shell, "--nodes", "2")
    wait_until(lambda: "answers: 2 nodes" in shell.dray("status")[1])
    shell.dray("down")
    assert "taken over from an earlier start: 2 nodes\n" in start(shell, "--nodes", "2")
    shell.dray("down")
    assert "2 nodes; removed, since nobody runs them now: node-1\n" in start(shell, "--nodes", "1")
    wait_until(lambda: "answers: 1 node," in shell.dray("status")[1])


def test_the_same_cluster_is_started_again_without_options(shell: Shell) -> None:
    """Nodes and the pods on them are as before; one option that describes the cluster describes all of it."""
    start(shell, "--nodes", "2", "--devices", "3", "--feature-gates", "DRAResourcePoolStatus=true")
    wait_until(lambda: "answers: 2 nodes" in shell.dray("status")[1])
    shell.dray("down")
    said = start(shell)
    assert "started as before: --feature-gates DRAResourcePoolStatus=true, --nodes 2, --devices 3\n" in said
    assert "2 simulated nodes × 3 devices" in said
    assert "removed" not in said
    shell.dray("down")
    assert "1 simulated node × 8 devices" in start(shell, "--nodes", "1")
    shell.dray("down")
    assert "started as before: --nodes 1\n" in start(shell)


def test_a_cluster_is_described_by_a_file(shell: Shell) -> None:
    file = shell.home / "cluster.yaml"
    file.write_text("nodes: 2\ndevices: 4\nstore: memory\nfeature-gates:\n  DRAResourcePoolStatus: true\n")
    said = start(shell, "--config", str(file), "--devices", "5")
    assert "2 simulated nodes × 5 devices" in said
    assert "state in memory" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nods: 3", "there is no option nods; there are adopt-nodes, agents"),
        ("nodes: many", "Expected `int`, got `str` - at `$.nodes`"),
        ("[nodes]", "expected a map of options"),
        ("nodes: [", "while parsing"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(shell: Shell, text: str, why: str) -> None:
    file = shell.home / "cluster.yaml"
    file.write_text(text)
    status, said = shell.dray("up", "--config", str(file))
    assert status == 2
    assert f"dray up: {file}: " in said
    assert why in said


def test_named_clusters_live_side_by_side_and_go_without_a_trace(shell: Shell) -> None:
    start(shell)
    said = start(shell, "--name", "ci", "--store", "memory", "--merge-kubeconfig")
    assert "Stop it with `dray down --name ci`." in said
    own = shell.home / ".kube" / "config"
    assert yaml.safe_load(own.read_text())["current-context"] == "dray-ci"
    names = [line.split()[0] for line in shell.dray("list")[1].splitlines()[1:]]
    assert names == [str(shell.home / ".dray"), "ci"]
    directory = shell.home / "data" / "dray" / "ci"
    assert directory.is_dir()
    assert shell.dray("delete", "ci", "--name", "other")[0] == 1
    assert shell.dray("delete", "ci")[0] == 0
    assert not directory.exists()
    assert yaml.safe_load(own.read_text())["contexts"] == []


def test_a_cluster_gets_a_port_that_is_free_and_keeps_it(shell: Shell) -> None:
    def up(*words: str) -> str:
        status, said = shell.dray("up", "--detach", "--store", "memory", *words)
        assert status == 0, said
        return said.splitlines()[0].rpartition(":")[2]

    first, second = up(), up("--name", "ci")
    assert first != second
    assert "its state was in memory and is gone" in shell.dray("down", "ci")[1]
    assert up("--name", "ci") == second


def test_the_end_is_told_for_a_directory_of_its_own(shell: Shell) -> None:
    try:
        assert f"Stop it with `dray down --dir {shell.home / 'own'}`." in start(
            shell, "--dir", "own", "--store", "memory"
        )
    finally:
        shell.dray("delete", "--dir", "own")


def test_what_cannot_start_says_why_also_in_the_background(shell: Shell) -> None:
    status, text = shell.dray("up", "--detach", "--port", "70000")
    assert (status, "expected a number from 0 to 65535" in text) == (1, True), text


@pytest.mark.parametrize("command", ["status", "down", "delete"])
def test_a_cluster_that_does_not_exist_is_said_not_to(shell: Shell, command: str) -> None:
    status, text = shell.dray(command, "--name", "nosuch")
    assert (status, "there is no cluster" in text) == (1, True), text


def test_nothing_is_deleted_that_no_cluster_left(shell: Shell) -> None:
    (shell.home / "photos").mkdir()
    assert shell.dray("delete", "--dir", "photos")[0] == 1
    assert (shell.home / "photos").is_dir()


@pytest.mark.parametrize("words", [("--name", "A"), ("--name", "../x"), ("--name", "a", "--dir", "b")])
def test_a_name_is_a_plain_word_and_the_only_place(shell: Shell, words: tuple[str, ...]) -> None:
    for command in ("up", "status"):
        status, text = shell.dray(command, *words)
        assert (status, "--name" in text) == (1, True), text


def test_a_process_with_the_same_number_is_not_taken_for_the_cluster(shell: Shell) -> None:
    start(shell)
    shell.dray("down")
    record = {"pid": os.getpid(), "begun": 1, "url": "https://x", "runs": [], "started": ""}
    (shell.home / ".dray" / "cluster.json").write_text(json.dumps(record))
    assert shell.dray("status")[0] == 3
    assert shell.dray("down")[0] == 0  # and this process goes on


def test_what_a_user_added_to_the_kubeconfig_survives_a_restart(shell: Shell) -> None:
    start(shell, "--store", "memory")
    shell.dray("down")
    path = shell.home / ".dray" / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    config["users"].append({"name": "me", "user": {"token": "t"}})
    config["contexts"].append({"name": "mine", "context": {"cluster": "dray", "user": "me", "namespace": "x"}})
    config["current-context"] = "mine"
    path.write_text(yaml.safe_dump(config))
    start(shell, "--store", "memory")
    after = yaml.safe_load(path.read_text())
    assert after["current-context"] == "mine"
    assert after["users"] == config["users"]
    assert after["clusters"][0]["cluster"]["server"] != config["clusters"][0]["cluster"]["server"]


def test_containers_that_go_on_are_told_of_and_end_with_the_cluster(shell: Shell) -> None:
    left = leave_running(shell)
    assert shell.dray("delete")[0] == 0
    assert not _runs(left)


def test_containers_of_a_node_that_is_no_longer_run_end_with_it(shell: Shell) -> None:
    left = leave_running(shell)
    assert "removed, since nobody runs them now: agent-0\n" in start(shell, "--agents", "0")
    wait_until(lambda: not _runs(left))


def leave_running(shell: Shell) -> str:
    """A cluster that has ended and has left a container; an argument by which that is known on the machine."""
    seconds = f"4321.{os.getpid()}"
    start(shell, "--agents", "1", "--runtime", "process")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x", "command": ["sleep", seconds]}]},
    }
    (shell.home / "pod.json").write_text(json.dumps(pod))
    kubeconfig = f"--kubeconfig={shell.home / '.dray' / 'kubeconfig'}"
    subprocess.run(["kubectl", kubeconfig, "create", "-f", str(shell.home / "pod.json")], check=True, timeout=SECONDS)
    wait_until(lambda: _runs(seconds))
    assert "1 container left running" in shell.dray("down")[1]
    assert _runs(seconds)
    return seconds


def _runs(argument: str) -> bool:
    """Whether a process with this argument runs: asked of the kernel, which forgets a killed one a moment later."""
    time.sleep(0.05)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
