"""What earlier versions left behind is opened, served and used on. `tools/recording/record.py` recorded it.

What is served may have more than what was recorded (a field with a default, an object that every cluster has), but
nothing of what was recorded may differ or be missing.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tools.recording.record import Cluster, Refused

from dray.node.checkpoint import Checkpoint
from dray.store import SqliteLog
from tests.cli.running import Dray
from tests.waiting import wait_until

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ["0.1.0"]
EVENTS = "/apis/events.k8s.io/v1/events"
PODS = "/api/v1/namespaces/team/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
BOOTSTRAP = "kubernetes.io/bootstrapping"  # the label of default roles


@pytest.fixture(params=VERSIONS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """`cluster/`, `node/claims.json` and `answers.json`, as recorded."""
    with tarfile.open(DATA / f"cluster-{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def recorded(place: Path) -> dict[str, list[dict[str, Any]]]:
    """The objects of each list, but for those that a start may change."""
    answers = json.loads((place / "answers.json").read_text())
    kept = {path: [item for item in answer["items"] if not is_bootstrap(item)] for path, answer in answers.items()}
    assert sum(map(len, kept.values())) > 60
    return kept


def is_bootstrap(item: dict[str, Any]) -> bool:
    """Every start brings the default roles up to date, and the service that tells the server's address."""
    return BOOTSTRAP in item["metadata"].get("labels", {}) or name(item) == ("default", "kubernetes")


def name(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def differences(recorded: Any, served: Any, path: str = "") -> list[str]:
    """Where something that was recorded is served differently, or not at all."""
    if isinstance(recorded, dict) and isinstance(served, dict):
        return [found for key in recorded for found in differences(recorded[key], served.get(key), f"{path}.{key}")]
    if isinstance(recorded, list) and isinstance(served, list) and len(recorded) == len(served):
        pairs = enumerate(zip(recorded, served, strict=True))
        return [found for at, (old, new) in pairs for found in differences(old, new, f"{path}[{at}]")]
    return [] if recorded == served else [f"{path}: {recorded!r} is now {served!r}"]


def test_every_object_is_served_with_the_keys_and_tokens_of_the_directory(place: Path) -> None:
    authority = (place / "cluster" / "ca.crt").read_bytes()
    with Dray("apiserver", "--dir", place / "cluster", "--port", "0"):
        cluster = Cluster(place / "cluster")
        for path, items in recorded(place).items():
            if path != EVENTS:  # their hour is over
                served = {name(item): item for item in cluster.ask(path)["items"]}
                assert [found for item in items for found in differences(item, served.get(name(item)), path)] == []
    assert (place / "cluster" / "ca.crt").read_bytes() == authority


async def test_events_are_there_for_their_hour(place: Path) -> None:
    log = await SqliteLog.open(place / "cluster" / "state.db", clock=lambda: 0.0)  # at that time all were to come
    keys = {version.key for version in (await log.load()).versions}
    await log.close()
    names = {"/".join(("events", *name(item))) for item in recorded(place)[EVENTS]}
    assert len(names) > 5
    assert names <= keys


def test_a_device_that_was_held_is_held(place: Path) -> None:
    with Dray("apiserver", "--dir", place / "cluster", "--port", "0"):
        cluster = Cluster(place / "cluster")
        [thief], [owner] = ([c for c in cluster.ask(CLAIMS)["items"] if name(c)[1] == n] for n in ("waiting", "choice"))
        allocation = owner["status"]["allocation"]
        results = [{**result, "request": "impossible"} for result in allocation["devices"]["results"]]
        thief["status"] = {"allocation": {**allocation, "devices": {"results": results}}}
        with pytest.raises(Refused) as refused:
            cluster.ask(f"{CLAIMS}/waiting/status", "PUT", thief)
    assert refused.value.code == 409


def test_the_cluster_goes_on(place: Path) -> None:
    """A pod that ends gives its devices back, and no device is given away twice."""
    with Dray("up", "--dir", place / "cluster", "--port", "0", "--nodes", "2", "--devices", "4"):
        cluster = Cluster(place / "cluster")
        cluster.ask(f"{PODS}/user-a", "DELETE")
        wait_until(lambda: not cluster.ask(f"{CLAIMS}/shared").get("status", {}).get("allocation"))
        container = {"name": "c", "image": "app", "resources": {"claims": [{"name": "d"}]}}
        claims = [{"name": "d", "resourceClaimTemplateName": "one"}]
        for number in range(2):
            spec = {"containers": [container], "resourceClaims": claims}
            cluster.ask(PODS, "POST", {"metadata": {"name": f"new-{number}"}, "spec": spec})
        wait_until(lambda: {cluster.ask(f"{PODS}/new-{n}")["status"].get("phase") for n in range(2)} == {"Running"})
        assert cluster.ask(f"{PODS}/user-b")["status"]["phase"] == "Running"
        statuses = [claim.get("status", {}) for claim in cluster.ask(CLAIMS)["items"]]
    allocations = [status["allocation"] for status in statuses if "allocation" in status]
    results = [result for allocation in allocations for result in allocation["devices"]["results"]]
    taken = Counter((result["driver"], result["pool"], result["device"]) for result in results)
    assert set(taken.values()) == {1}
    assert len(allocations) >= 7


def test_what_a_node_had_prepared_is_known(place: Path) -> None:
    checkpoint, problem = Checkpoint.open(place / "node" / "claims.json")
    assert problem == ""
    [claim] = checkpoint.claims.values()
    answers = recorded(place)
    [stored] = [c for c in answers["/apis/resource.k8s.io/v1/resourceclaims"] if name(c)[1] == "prepared"]
    [pod] = [pod for pod in answers["/api/v1/pods"] if name(pod)[1] == "agent-user"]
    assert (claim.uid, claim.namespace, claim.name) == (stored["metadata"]["uid"], "team", "prepared")
    assert claim.pods == {pod["metadata"]["uid"]: ("d",)}
    assert claim.prepared
    [share] = claim.shares
    results = stored["status"]["allocation"]["devices"]["results"]
    assert [(d.pool, d.device) for d in share.devices or ()] == [(r["pool"], r["device"]) for r in results]
    assert all(device.cdi for device in share.devices or ())
