"""`dray snapshot`: a copy of a running cluster, and a cluster made of what a damaged database still holds."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tools.recording.record import Cluster

from tests.cli.running import Dray, outcome
from tests.store.etcd_process import Etcd

DATA = Path(__file__).parents[1] / "data" / "cluster-0.1.0.tar.xz"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
LOST = "'resourceclaims.resource.k8s.io/team/choice' at revision"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The directory of a cluster with claims that have devices, brought up to date."""
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    with Dray("apiserver", "--dir", tmp_path / "cluster", "--port", "0") as server:
        assert server.stop() == 0
    return tmp_path / "cluster"


def change(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def test_a_copy_of_a_running_cluster_is_restored_with_its_keys(tmp_path: Path) -> None:
    with Dray("apiserver", "--dir", tmp_path / "old", "--port", "0"):
        Cluster(tmp_path / "old").ask(MAPS, "POST", {"metadata": {"name": "kept"}, "data": {"a": "b"}})
        code, text = outcome("snapshot", "save", tmp_path / "old" / "copy.db", "--dir", tmp_path / "old")
        assert (code, "objects at revision" in text) == (0, True), text
        Cluster(tmp_path / "old").ask(MAPS, "POST", {"metadata": {"name": "later"}})
    code, text = outcome("snapshot", "restore", tmp_path / "old" / "copy.db", "--dir", tmp_path / "new")
    assert (code, "nothing is lost" in text) == (0, True), text
    for name in ("ca.crt", "admin.token", "service-accounts.key"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "old" / name).read_bytes()
    with Dray("apiserver", "--dir", tmp_path / "new", "--port", "0"):
        names = {item["metadata"]["name"] for item in Cluster(tmp_path / "new").ask(MAPS)["items"]}
    assert "kept" in names
    assert "later" not in names


def test_a_cluster_moves_to_etcd_and_back(recorded: Path, tmp_path: Path) -> None:
    """What both kinds of store serve is the same, and claims keep their devices."""
    with Dray("apiserver", "--dir", recorded, "--port", "0"):
        before = served(recorded)
    etcd = Etcd(tmp_path)
    etcd.start()
    store = f"etcd://{etcd.endpoint}"
    try:
        moved, back = tmp_path / "moved", tmp_path / "back"
        code, text = outcome("snapshot", "restore", recorded, "--dir", moved, "--store", store)
        assert (code, "nothing is lost" in text) == (0, True), text
        assert not (moved / "state.db").exists()
        with Dray("apiserver", "--dir", moved, "--port", "0", "--store", store):
            assert served(moved) == before
            code, text = outcome("snapshot", "save", moved / "copy.db", "--store", store)
            assert (code, "objects at revision" in text) == (0, True), text
        code, text = outcome("snapshot", "check", moved / "copy.db")
        assert (code, "nothing is lost" in text) == (0, True), text
        code, text = outcome("snapshot", "restore", recorded, "--dir", tmp_path / "again", "--store", store)
        assert (code, "has keys below /dray/ already" in text) == (1, True), text
    finally:
        etcd.kill()
    code, text = outcome("snapshot", "restore", moved / "copy.db", "--dir", back)
    assert code == 0, text
    with Dray("apiserver", "--dir", back, "--port", "0"):
        assert served(back) == before


def served(directory: Path) -> dict[str, object]:
    """The claims and maps of a cluster without what names a version of them."""
    found = {}
    for path in (CLAIMS, MAPS):
        for item in Cluster(directory).ask(path)["items"]:
            del item["metadata"]["resourceVersion"]
            found[item["metadata"]["uid"]] = item
    assert found
    return found


def test_a_cluster_goes_on_with_what_is_whole_and_devices_are_held_by_who_is_left(
    recorded: Path, tmp_path: Path
) -> None:
    """The claim `choice` is damaged: it is named, it is gone, and its device is free again."""
    with Dray("apiserver", "--dir", recorded, "--port", "0"):
        claims = {claim["metadata"]["name"]: claim for claim in Cluster(recorded).ask(CLAIMS)["items"]}
    change(recorded / "state.db", b'"name":"choice"', b'"name":"chojce"')
    code, text = outcome("apiserver", "--dir", recorded, "--port", "0")
    assert code == 1
    assert f"{recorded / 'state.db'} is damaged: {LOST}" in text
    assert f"`dray snapshot restore {recorded / 'state.db'} --dir NEW`" in text
    code, text = outcome("snapshot", "check", recorded)
    assert code == 1
    assert LOST in text
    code, text = outcome("snapshot", "restore", recorded, "--dir", tmp_path / "new")
    assert code == 0, text
    assert LOST in text
    with Dray("apiserver", "--dir", tmp_path / "new", "--port", "0"):
        cluster = Cluster(tmp_path / "new")
        left = {claim["metadata"]["name"]: claim for claim in cluster.ask(CLAIMS)["items"]}
        allocation = claims["choice"]["status"]["allocation"]
        results = [{**result, "request": "impossible"} for result in allocation["devices"]["results"]]
        heir = {**left["waiting"], "status": {"allocation": {**allocation, "devices": {"results": results}}}}
        cluster.ask(f"{CLAIMS}/waiting/status", "PUT", heir)
    assert left == {name: claim for name, claim in claims.items() if name != "choice"}


def test_what_cannot_be_done_is_explained(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for arguments, words in (
        (("check", tmp_path / "nothing"), "cannot read"),
        (("check", tmp_path / "text"), "nothing of"),
        (("restore", tmp_path / "text", "--dir", tmp_path / "new"), "nothing of"),
        (("save", tmp_path / "copy", "--dir", tmp_path), "state.db does not exist"),
    ):
        code, text = outcome("snapshot", *arguments)
        assert code == (2 if words == "cannot read" else 1)
        assert words in text
        assert "Traceback" not in text
    assert not (tmp_path / "new").exists()
