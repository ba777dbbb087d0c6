"""Several API servers on one etcd: who trusts whom, and what each sees of the others' writes."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.security.certificates import Keys
from tests.cli.running import Dray, outcome
from tests.store.etcd_process import Etcd
from tests.waiting import SECONDS


class Server:
    """One API server as a client sees it."""

    def __init__(self, dray: Dray, directory: Path) -> None:
        self.dray = dray
        self.directory = directory
        self._url = next(line for line in dray.lines if line.startswith("dray ")).split(" at ")[1]

    def call(self, method: str, path: str, body: object = None, token: str = "", **headers: str) -> Any:
        token = token or (self.directory / "admin.token").read_text()
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers},
        )
        with urllib.request.urlopen(request, timeout=SECONDS, context=self.trust()) as answer:
            return json.loads(answer.read())

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.directory / "ca.crt"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    place = tmp_path_factory.mktemp("servers")
    etcd = Etcd(place)
    etcd.start()
    options = ("apiserver", "--store", f"etcd://{etcd.endpoint}", "--port", "0")
    with (
        Dray(*options, "--dir", place / "one") as one,
        Dray(*options, "--dir", place / "two", "--keys-from", place / "one") as two,
    ):
        yield [Server(one, place / "one"), Server(two, place / "two")]
    etcd.kill()


def test_every_server_takes_the_credentials_of_the_others(servers: list[Server]) -> None:
    one, two = servers
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    one.call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    wanted: dict[str, object] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    token = one.call("POST", path, wanted)["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    asked = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    for server in servers:
        found = server.call("POST", asked, review, token=token)["status"]["userInfo"]["username"]
        assert found == "system:serviceaccount:default:robot"
    admin = (one.directory / "admin.token").read_text()
    assert two.call("GET", "/api/v1/namespaces", token=admin)["kind"] == "NamespaceList"
    assert Keys.open(one.directory).authority == Keys.open(two.directory).authority


def test_what_one_server_wrote_every_other_one_reads(servers: list[Server]) -> None:
    for number in range(20):
        writer, reader = servers[number % 2], servers[(number + 1) % 2]
        name = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{number}"}}
        made = writer.call("POST", "/api/v1/namespaces/default/configmaps", name)
        read = reader.call("GET", f"/api/v1/namespaces/default/configmaps/map-{number}")
        assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_list_goes_on_at_another_server(servers: list[Server]) -> None:
    for number in range(9):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"page-{number}"}}
        servers[number % 2].call("POST", "/api/v1/namespaces/default/secrets", secret)
    names, token, pages = [], "", 0
    while pages == 0 or token:
        path = f"/api/v1/namespaces/default/secrets?limit=2&continue={token}"
        page = servers[pages % 2].call("GET", path)
        names += [item["metadata"]["name"] for item in page["items"]]
        token, pages = page["metadata"].get("continue", ""), pages + 1
        if pages == 1:  # it is not part of a list that began before
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "page-99"}}
            servers[0].call("POST", "/api/v1/namespaces/default/secrets", secret)
    assert names == [f"page-{number}" for number in range(9)]
    assert pages == 5


def test_a_watch_goes_on_at_another_server(servers: list[Server]) -> None:
    """A watcher takes three events of a server and goes on at the other one, without a gap and without a repetition."""
    path = "/api/v1/namespaces/default/endpoints"
    start = servers[0].call("GET", path)["metadata"]["resourceVersion"]
    for number in range(12):
        thing = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": f"seen-{number}"}}
        servers[number % 2].call("POST", path, thing)
    seen: list[str] = []
    version = start
    for turn in range(4):
        server = servers[turn % 2]
        request = urllib.request.Request(
            f"{server._url}{path}?watch=1&resourceVersion={version}",
            headers={"Authorization": f"Bearer {(server.directory / 'admin.token').read_text()}"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS, context=server.trust()) as stream:
            for _ in range(3):
                event = json.loads(stream.readline())
                seen.append(event["object"]["metadata"]["name"])
                version = event["object"]["metadata"]["resourceVersion"]
    assert seen == [f"seen-{number}" for number in range(12)]


def test_one_device_is_given_out_once_whichever_server_is_asked(servers: list[Server]) -> None:
    """Both servers are asked for the same device for different claims; the second one is told who was first."""
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}
    servers[0].call("POST", "/api/v1/nodes", node)
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-0", "devices": [{"name": "gpu-0"}]}
    published = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "gpus"},
        "spec": spec,
    }
    servers[1].call("POST", "/apis/resource.k8s.io/v1/resourceslices", published)
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    outcomes = []
    for number, server in enumerate(servers):
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": f"claim-{number}"}}
        made = server.call("POST", claims, {**claim, "spec": {"devices": devices}})
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        try:
            server.call("PUT", f"{claims}/claim-{number}/status", made)
            outcomes.append(200)
        except urllib.error.HTTPError as error:
            outcomes.append(error.code)
    assert outcomes == [200, 409]


def test_keys_of_another_cluster_are_not_replaced(tmp_path: Path) -> None:
    Keys.open(tmp_path / "one")
    before = Keys.open(tmp_path / "two").authority
    code, text = outcome("apiserver", "--dir", tmp_path / "two", "--keys-from", tmp_path / "one", "--port", "0")
    assert code == 1
    assert "start with an empty directory" in text
    assert Keys.open(tmp_path / "two").authority == before


def test_keys_that_are_not_there_yet_are_named(tmp_path: Path) -> None:
    code, text = outcome("apiserver", "--dir", tmp_path / "two", "--keys-from", tmp_path / "one", "--port", "0")
    assert code == 1
    assert "--keys-from" in text
    assert "start the other server first" in text
    assert "Traceback" not in text
