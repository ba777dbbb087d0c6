"""CDI specs: the lowest version that fits, rules before files, and files that appear as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.cdi import HOOKS, CdiError
from dray.driver import DeviceNode, Edits, Hook, Mount
from dray.driver.cdi import CdiDirectory, versioned, write_atomically
from dray.node.cdi import Specs

UID = "8f1c"
FULL = Edits(
    env={"A": "1"},
    device_nodes=[DeviceNode("/dev/a", "/dev/b", "rw")],
    mounts=[Mount("/host", "/container", type="bind")],
    hooks=[Hook("createRuntime", "/bin/true", ["true"], ["X=y"])],
    additional_gids=[44],
)


def test_a_spec_is_what_a_runtime_reads(tmp_path: Path) -> None:
    directory = CdiDirectory(tmp_path / "cdi", "3d.example.com")
    ids = directory.write(UID, {"0-gpu-1": FULL, "1-gpu-2": Edits(env={"B": "2"}), "2-none": Edits()})
    assert ids == {
        "0-gpu-1": f"k8s.3d.example.com/claim={UID}-0-gpu-1",
        "1-gpu-2": f"k8s.3d.example.com/claim={UID}-1-gpu-2",
    }
    merged = Specs([tmp_path / "cdi"]).edits([*ids.values()]).edits
    assert merged.env == ("A=1", "B=2")
    assert [node.hostPath for node in merged.deviceNodes] == ["/dev/b"]
    assert [mount.containerPath for mount in merged.mounts] == ["/container"]
    assert directory.exists(UID)
    assert directory.claims() == [UID]
    directory.remove(UID)
    directory.remove(UID)
    assert not directory.exists(UID)


def test_without_edits_there_is_no_file_and_an_old_one_goes(tmp_path: Path) -> None:
    directory = CdiDirectory(tmp_path, "d.example.com")
    directory.write(UID, {"0-a": FULL})
    assert directory.write(UID, {"0-a": Edits()}) == {}
    assert [*tmp_path.iterdir()] == []


def test_specs_of_other_drivers_are_not_ours(tmp_path: Path) -> None:
    mine, other = CdiDirectory(tmp_path, "d.example.com"), CdiDirectory(tmp_path, "e.example.com")
    other.write("o", {"0": FULL})
    (tmp_path / "unrelated.json").write_text("{}")
    assert mine.claims() == []


@pytest.mark.parametrize(
    ("name", "edits", "version"),
    [
        ("a", Edits(env={"A": "b"}), "0.3.0"),
        ("a", Edits(mounts=[Mount("/a", "/b")]), "0.3.0"),
        ("a", Edits(mounts=[Mount("/a", "/b", type="bind")]), "0.4.0"),
        ("a", Edits(device_nodes=[DeviceNode("/dev/a", "/dev/b")]), "0.5.0"),
        ("0", Edits(env={"A": "b"}), "0.5.0"),
        ("a", Edits(additional_gids=[1]), "0.7.0"),
    ],
)
def test_the_version_is_the_lowest_that_has_what_is_used(name: str, edits: Edits, version: str) -> None:
    spec = {"kind": "v.com/c", "devices": [{"name": name, "containerEdits": edits.tree()}]}
    assert versioned(spec)["cdiVersion"] == version


def test_annotations_dots_and_network_devices_need_later_versions() -> None:
    def spec(**more: Any) -> dict[str, Any]:
        return {"kind": "v.com/c", "devices": [{"name": "a", "containerEdits": {"env": ["A=b"]}}], **more}

    assert versioned(spec(annotations={"a": "b"}))["cdiVersion"] == "0.6.0"
    assert versioned(spec(kind="v.com/c.d"))["cdiVersion"] == "0.6.0"
    moved = {"netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}]}
    assert versioned(spec(containerEdits=moved))["cdiVersion"] == "1.1.0"


def one_device(edits: dict[str, Any], name: str = "a", kind: str = "v.com/c") -> dict[str, Any]:
    return {"kind": kind, "devices": [{"name": name, "containerEdits": edits}]}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (one_device({"env": ["A=b"]}, kind="v.com"), "kind"),
        (one_device({"env": ["A=b"]}, kind="1.com/c"), "kind"),
        (one_device({"env": ["A=b"]}, name="-a"), "name"),
        (one_device({"env": ["A=b"]}, name="a/b"), "name"),
        (one_device({}), "containerEdits"),
        (one_device({"env": ["A"]}), "env"),
        (one_device({"env": ["=b"]}), "env"),
        (one_device({"deviceNodes": [{"path": ""}]}), "path"),
        (one_device({"deviceNodes": [{"path": "/a", "permissions": "rx"}]}), "permissions"),
        (one_device({"mounts": [{"hostPath": "", "containerPath": "/a"}]}), "mounts"),
        (one_device({"hooks": [{"hookName": "later", "path": "/a"}]}), "hooks"),
        (one_device({"hooks": [{"hookName": "poststop", "path": ""}]}), "hooks"),
        (one_device({"hooks": [{"hookName": "poststop", "path": "/a", "env": ["A"]}]}), "env"),
        ({"kind": "v.com/c", "devices": []}, "devices"),
        ({"kind": "v.com/c", "devices": [*one_device({"env": ["A=b"]})["devices"]] * 2}, "twice"),
    ],
)
def test_what_a_runtime_would_refuse_is_refused_by_name(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CdiError, match=complaint):
        versioned(spec)


@pytest.mark.parametrize("name", HOOKS)
def test_all_six_kinds_of_hooks_exist(name: str) -> None:
    versioned(one_device(Edits(hooks=[Hook(name, "/bin/true")]).tree()))


def test_a_bad_spec_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(CdiError):
        CdiDirectory(tmp_path, "d.example.com").write(UID, {"0": Edits(env={"": "b"})})
    assert [*tmp_path.iterdir()] == []


@given(st.dictionaries(st.text("ABC_", min_size=1), st.text(st.characters(exclude_characters="\0")), min_size=1))
def test_any_value_of_a_variable_arrives(env: dict[str, str]) -> None:
    spec = json.loads(json.dumps(one_device(Edits(env=env).tree())))
    versioned(spec)
    assert dict(text.split("=", 1) for text in spec["devices"][0]["containerEdits"]["env"]) == env


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]  # the point of the test
    assert path.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [path]
    assert path.stat().st_mode & 0o777 == 0o644
