"""Record what a version of dray leaves behind, as test data for every later one.

`PYTHONPATH=CHECKOUT/src .venv/bin/python tools/recording/record.py OUT.tar.xz` runs a cluster with the code of that
checkout: simulated nodes, a node agent with the example driver, and the objects of `objects.yaml`, some of which are
changed and deleted again. The archive has the cluster's directory (`cluster/`), the node
agent's checkpoint (`node/claims.json`), and what the API server answered last (`answers.json`): every list, and one of
an older revision. Only the command line and the HTTP API are used here, so that the script outlives what it records.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

OBJECTS = Path(__file__).with_name("objects.yaml")
# Certificates and nodes name the machine that they are made on, which is nobody's business.
DRAY = """
import platform, socket, sys
socket.gethostname = platform.release = lambda: "recorded"
platform.platform = lambda *arguments, **options: "recorded"
from dray.cli import main
sys.exit(main())
"""
RUNNING = ("user-a", "user-b", "agent-user")
SECONDS = 60.0


class Refused(Exception):
    """The server's answer is an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Cluster:
    """The HTTP API of the server whose directory is given."""

    def __init__(self, directory: Path) -> None:
        config = yaml.safe_load((directory / "kubeconfig").read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))

    def ask(self, path: str, method: str = "GET", body: Any = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS, context=self._tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, f"{method} {path}: {error.read().decode()}") from error

    def collections(self) -> dict[str, str]:
        """The path of every collection that can be listed, by kind and group, in one version each."""
        groups = [group["preferredVersion"]["groupVersion"] for group in self.ask("/apis")["groups"]]
        found = {}
        for prefix in ("/api/v1", *(f"/apis/{version}" for version in groups)):
            for resource in self.ask(prefix)["resources"]:
                if "/" not in resource["name"] and "list" in resource["verbs"]:
                    found[resource["kind"], resource["namespaced"]] = f"{prefix}/{resource['name']}"
        return {kind: path for (kind, _), path in found.items()}

    def create(self, tree: dict[str, Any], collections: dict[str, str]) -> None:
        self.ask(within(tree, collections[tree["kind"]]), "POST", tree)


def within(tree: dict[str, Any], collection: str) -> str:
    """The collection of the object's namespace."""
    namespace = tree["metadata"].get("namespace")
    prefix, _, name = collection.rpartition("/")
    return f"{prefix}/namespaces/{namespace}/{name}" if namespace else collection


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", DRAY, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if not any(line == "ready\n" for line in process.stdout):
            raise SystemExit(f"not ready: {arguments}")
        yield process
    finally:
        process.kill()
        process.communicate()


def wait(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"not so after {SECONDS:g} s: {look.__qualname__}")
        time.sleep(0.05)


def populate(cluster: Cluster) -> None:
    """Create everything, let the pods run, and make some history."""
    collections = cluster.collections()
    for tree in yaml.safe_load_all(OBJECTS.read_text()):
        cluster.create(tree, collections)
    pods = "/api/v1/namespaces/team/pods"

    def phases() -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in cluster.ask(pods)["items"]}

    def ready() -> bool:
        return all(phases().get(name) == "Running" for name in RUNNING) and len(phases()) >= 8

    wait(ready)
    for number in range(2, 6):
        words = "/api/v1/namespaces/team/configmaps/words"
        cluster.ask(words, "PATCH", {"data": {"number": str(number)}}, "application/merge-patch+json")
    cluster.ask("/api/v1/namespaces/team/configmaps/temporary", "DELETE")


def run_cluster(directory: Path, node: Path) -> None:
    options = ("--kubeconfig", directory / "kubeconfig", "--root", node)
    agent = (
        "--name",
        "agent",
        "--runtime",
        "fake",
        "--port",
        "-1",
        "--labels",
        "role=agent",
        "--capacity",
        "cpu=4,memory=8Gi,pods=110",
    )
    driver = ("--node", "agent", "--devices", "3")
    with running("up", "--dir", directory, "--port", "0", "--nodes", "2", "--devices", "4") as up:
        with running("node", *options, *agent), running("driver", "example", "gpu", *options, *driver):
            populate(Cluster(directory))
        up.terminate()
        up.wait()


def answers(directory: Path, left: Path) -> dict[str, Any]:
    """What a server that is alone with the directory answers, and, in `left`, what is there if the machine stops now."""
    with running("apiserver", "--dir", directory, "--port", "0"):
        cluster = Cluster(directory)
        configmaps = "/api/v1/namespaces/team/configmaps"
        older = cluster.ask(configmaps)["metadata"]["resourceVersion"]
        before = f"{configmaps}?resourceVersion={older}&resourceVersionMatch=Exact"
        last = {"metadata": {"name": "last"}, "data": {"written": "just before the end"}}
        cluster.ask(configmaps, "POST", last)
        cluster.ask(f"{configmaps}/words", "DELETE")
        found = {path: cluster.ask(path) for path in [*cluster.collections().values(), before]}
        shutil.copytree(directory, left, ignore=shutil.ignore_patterns("*.lock", "*-shm"))
        return found


def main(archive: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="rec-"))  # short, for the sake of sockets
    try:
        run_cluster(place / "cluster", place / "node")
        found = answers(place / "cluster", place / "left")
        (place / "answers.json").write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(place / "answers.json", "answers.json", filter=_anonymous)
            tar.add(place / "left", "cluster", filter=_anonymous)
            tar.add(place / "node" / "claims.json", "node/claims.json", filter=_anonymous)
    finally:
        shutil.rmtree(place)
    print(
        f"{archive}: {archive.stat().st_size} bytes, {sum(len(answer['items']) for answer in found.values())} objects"
    )


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]))
