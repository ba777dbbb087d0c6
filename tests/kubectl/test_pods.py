"""Looking into pods as users do: transcripts with an old kubectl and a recent one, on a real node agent."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.testing import Cluster
from tests.kubectls import NAMES, Kubectl, kubectl_of
from tests.waiting import SECONDS, wait_until

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "x", "command": ["sh", "-c", "echo begun; exec sleep 4321"]}],
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(agents=1, runtime="auto") as made:
        made.apply(POD)
        made.wait("pods", "p", lambda pod: pod["status"].get("phase") == "Running")
        yield made


@pytest.fixture(params=NAMES)
def kubectl(request: pytest.FixtureRequest, cluster: Cluster) -> Kubectl:
    return kubectl_of(request.param, cluster.kubeconfig)


@pytest.fixture
def recent(cluster: Cluster) -> Kubectl:
    return kubectl_of("recent", cluster.kubeconfig)


class Terminal:
    """A kubectl in a terminal, with somebody in front of it."""

    def __init__(self, kubectl: Kubectl, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*kubectl.words, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=kubectl.environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def sees(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._ours], [], [], 0.5)[0]:
                self.seen += self._read()

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError as error:  # of a terminal that nobody has open any more
            raise AssertionError(f"kubectl has ended: {self.seen}") from error

    def ends(self) -> int:
        while self._process.poll() is None:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._ours, 65536).decode(errors="replace")
                except OSError:
                    break
        code = self._process.wait(SECONDS)
        os.close(self._ours)
        return code

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def name_for(kubectl: Kubectl, what: str) -> str:
    return f"{what}-{''.join(c for c in kubectl.name if c.isalpha()).lower()}"


def test_what_is_piped_into_run_comes_out_and_the_pod_goes(kubectl: Kubectl) -> None:
    name = name_for(kubectl, "piped")
    script = "sleep 1; cat; echo end"  # so that kubectl has attached before anything is written
    done = kubectl.run(
        *("run", name, "--image=x", "-i", "--rm", "--restart=Never", "--command", "--", "sh", "-c", script),
        stdin="one\ntwo\n",
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith("pod ")] == ["one", "two", "end"]
    assert kubectl.run("get", "pod", name).returncode == 1


def test_run_passes_the_exit_code_of_the_container_on(recent: Kubectl) -> None:
    arguments = ("run", "failing", "--image=x", "-i", "--rm", "--restart=Never", "--command", "--")
    assert recent.run(*arguments, "sh", "-c", "cat; exit 7", stdin="x").returncode == 7


def test_a_terminal_is_left_and_found_again(kubectl: Kubectl) -> None:
    name = name_for(kubectl, "shell")
    script = "while read word; do echo you said $word; done"
    terminal = Terminal(
        kubectl, "run", name, "--image=x", "-it", "--restart=Never", "--command", "--", "sh", "-c", script
    )
    terminal.sees("try pressing enter")
    terminal.type("hello\n")
    terminal.sees("you said hello")
    terminal.leave()
    wait_until(lambda: "hello" in kubectl("logs", name))
    again = Terminal(kubectl, "attach", "-it", name)
    again.sees("try pressing enter")
    again.type("bye\n")
    again.sees("you said bye")
    again.type("\4")
    again.ends()
    wait_until(lambda: phase(kubectl, name) == "Succeeded")
    kubectl("delete", "pod", name)


def phase(kubectl: Kubectl, name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")


def test_debug_adds_a_container_that_sees_its_target(recent: Kubectl) -> None:
    terminal = Terminal(recent, "debug", "p", "-it", "--image=x", "--target=main", "-c", "dbg", "--", "sh")
    terminal.sees("try pressing enter")
    terminal.type("tr '\\0' ' ' </proc/2/cmdline || tr '\\0' ' ' </proc/1/cmdline; echo; exit 5\n")
    terminal.ends()
    status = added(recent, "dbg")
    assert status["state"]["terminated"]["exitCode"] == 5
    assert "4321" in recent("logs", "p", "-c", "dbg")
    assert phase(recent, "p") == "Running"


def added(kubectl: Kubectl, name: str) -> Any:
    """The state of an ephemeral container that has ended."""

    def look() -> Any:
        pod = json.loads(kubectl("get", "pod", "p", "-o", "json"))
        [found] = [s for s in pod["status"].get("ephemeralContainerStatuses", ()) if s["name"] == name] or [None]
        return found if found and "terminated" in found["state"] else None

    return wait_until(look)


def test_logs_exec_and_attach_reach_an_added_container(recent: Kubectl) -> None:
    recent("debug", "p", "--image=x", "-c", "looking", "--", "sh", "-c", "echo here; exec sleep 600")
    wait_until(lambda: recent.run("logs", "p", "-c", "looking").stdout == "here\n")
    assert recent("exec", "p", "-c", "looking", "--", "echo", "inside") == "inside\n"
    events = recent("get", "events", "--field-selector=involvedObject.name=p", "-o", "jsonpath={.items[*].reason}")
    assert "Started" in events


def test_debug_of_a_node_sees_its_files_and_processes(recent: Kubectl) -> None:
    script = "ls -d /host/etc; cat /proc/1/comm; sleep 600"
    first = Path("/proc/1/comm").read_text().strip()
    told = recent("debug", "node/agent-0", "--image=x", "--", "sh", "-c", script)
    name = told.split("debugging pod ")[1].split(" ")[0]
    wait_until(lambda: recent.run("logs", name).stdout.split() == ["/host/etc", first])
    recent("delete", "pod", name, "--grace-period=1")


def test_whoever_may_not_add_containers_is_told_so(recent: Kubectl) -> None:
    done = recent.run("--as=nobody", "debug", "p", "--image=x", "-c", "no", "--", "true")
    assert done.returncode == 1
    assert "forbidden" in done.stderr


def test_logs_follow_until_the_container_ends(kubectl: Kubectl) -> None:
    name = name_for(kubectl, "counting")
    script = "for n in 1 2 3; do echo $n; sleep 0.3; done"
    kubectl("run", name, "--image=x", "--restart=Never", "--command", "--", "sh", "-c", script)
    wait_until(lambda: kubectl.run("logs", name).returncode == 0)
    assert kubectl("logs", "-f", name).split() == ["1", "2", "3"]
    assert kubectl("logs", "--tail=1", name).split() == ["3"]
    kubectl("delete", "pod", name)


def test_top_shows_what_nodes_and_pods_use(kubectl: Kubectl) -> None:
    wait_until(lambda: "agent-0" in kubectl.run("top", "nodes").stdout)
    wait_until(lambda: kubectl.run("top", "pod", "p", "--containers").returncode == 0)
    [line] = kubectl("top", "pod", "p", "--containers", "--no-headers").splitlines()
    pod, container, cores, memory = line.split()
    assert (pod, container, cores[-1], memory[-2:]) == ("p", "main", "m", "Mi")


def test_what_a_node_tells_is_for_those_who_may_read_it(recent: Kubectl) -> None:
    path = "/api/v1/nodes/agent-0/proxy"
    assert recent("get", "--raw", f"{path}/healthz") == "ok"
    assert "p" in [pod["metadata"]["name"] for pod in json.loads(recent("get", "--raw", f"{path}/pods"))["items"]]
    summary = json.loads(recent("get", "--raw", f"{path}/stats/summary"))
    assert summary["node"]["nodeName"] == "agent-0"
    assert summary["node"]["memory"]["workingSetBytes"] > 0
    assert "container_cpu_usage_seconds_total{" in recent("get", "--raw", f"{path}/metrics/resource")
    refused = recent.run("--as=nobody", "get", "--raw", f"{path}/pods")
    assert (refused.returncode, "nodes/proxy" in refused.stderr) == (1, True)
    assert recent.run("get", "--raw", f"{path}/exec/default/p/main?command=id").returncode == 1
    assert recent.run("create", "--raw", f"{path}/pods", "-f", "/dev/null").returncode == 1
