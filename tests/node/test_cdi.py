"""CDI specs: rules, directories, merged edits."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.cdi import CdiError, minimum_version
from dray.node import cdi
from dray.node.cdi import Specs, parse

EDITS: dict[str, Any] = {"env": ["A=b"]}


def spec(edits: Any = EDITS, *, version: str = "1.1.0", kind: str = "vendor.com/gpu", **more: Any) -> dict[str, Any]:
    devices = [{"name": "gpu0", "containerEdits": edits}]
    return {"cdiVersion": version, "kind": kind, "devices": devices, **more}


def read(tree: Any) -> Any:
    return parse(json.dumps(tree).encode(), "file.json")


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"])
def test_every_version_is_read(version: str) -> None:
    assert read(spec(version=version)).cdiVersion == version


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (spec(version="0.2.0"), "cdiVersion '0.2.0'"),
        (spec(version="2.0.0"), "cdiVersion '2.0.0'"),
        (spec(kind="vendor.com"), "class ''"),
        (spec(kind="/gpu"), "vendor ''"),
        (spec(kind="1vendor/gpu"), "vendor '1vendor'"),
        (spec(kind="vendor.com/g/pu"), "class 'g/pu'"),
        (spec(kind="vendor.com/gpu-"), "class 'gpu-'"),
        (spec(devices=[]), "devices: expected at least one"),
        (spec(devices=[{"name": "a b", "containerEdits": EDITS}]), "device name 'a b'"),
        (spec(devices=[{"name": "", "containerEdits": EDITS}]), "device name ''"),
        (spec(devices=[{"name": "a:", "containerEdits": EDITS}]), "device name 'a:'"),
        (spec(devices=[{"name": "a", "containerEdits": EDITS}] * 2), "device a: named twice"),
        (spec({}), "device gpu0: containerEdits: must not be empty"),
        (spec({"env": ["NOVALUE"]}), "env 'NOVALUE': expected NAME=VALUE"),
        (spec({"env": ["=x"]}), "env '=x'"),
        (spec({"deviceNodes": [{"path": ""}]}), "deviceNodes: path"),
        (spec({"deviceNodes": [{"path": "/dev/x\0"}]}), "NUL"),
        (spec({"mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro\0"]}]}), "NUL"),
        (spec({"hooks": [{"hookName": "poststop", "path": "/bin/true", "args": ["a\0"]}]}), "NUL"),
        (spec({"env": ["A=b\0"]}), "NUL"),
        (spec({"deviceNodes": [{"path": "/dev/x", "type": "z"}]}), "type 'z'"),
        (spec({"deviceNodes": [{"path": "/dev/x", "permissions": "rx"}]}), "permissions 'rx'"),
        (spec({"mounts": [{"hostPath": "", "containerPath": "/x"}]}), "mounts: hostPath"),
        (spec({"hooks": [{"hookName": "prepare", "path": "/x"}]}), "hookName 'prepare'"),
        (spec({"hooks": [{"hookName": "prestart", "path": ""}]}), "hooks prestart: path"),
        (spec({"hooks": [{"hookName": "prestart", "path": "/x", "env": ["bad"]}]}), "hooks prestart: env 'bad'"),
        (spec({"intelRdt": {"closID": "../x"}}), "closID"),
        (spec({"netDevices": [{"hostInterfaceName": "", "name": "eth0"}]}), "netDevices"),
        (spec({"additionalGids": [-1]}), "additionalGids"),
        (spec(containerEdits={"env": ["x"]}), "containerEdits: env 'x'"),
        (spec({"environment": ["A=b"]}), "environment"),
        ([], "Expected `object`"),
        (spec({"env": "A=b"}), "env"),
    ],
)
def test_a_broken_rule_is_named(tree: Any, problem: str) -> None:
    with pytest.raises(CdiError) as error:
        read(tree)
    assert str(error.value).startswith("file.json: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("tree", "version"),
    [
        (spec(), "0.3.0"),
        (spec({"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "tmpfs"}]}), "0.4.0"),
        (spec({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]}), "0.5.0"),
        (spec(devices=[{"name": "0", "containerEdits": EDITS}]), "0.5.0"),
        (spec(kind="vendor.com/g.pu"), "0.6.0"),
        (spec(annotations={"a": "b"}), "0.6.0"),
        (spec({"additionalGids": [1]}), "0.7.0"),
        (spec({"intelRdt": {"closID": "a"}}), "0.7.0"),
        (spec({"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}), "1.1.0"),
    ],
)
def test_what_a_spec_uses_needs_a_version(tree: dict[str, Any], version: str) -> None:
    assert minimum_version(read(tree)) == version
    tree["cdiVersion"] = version
    read(tree)
    older = {"0.4.0": "0.3.0", "0.5.0": "0.4.0", "0.6.0": "0.5.0", "0.7.0": "0.6.0", "1.1.0": "1.0.0"}.get(version)
    if older:
        tree["cdiVersion"] = older
        with pytest.raises(CdiError, match=f"needs at least {version}"):
            read(tree)


def write(directory: Path, name: str, tree: Any) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(json.dumps(tree))
    return file


def device(name: str, **edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": edits}


def test_edits_are_merged_in_the_order_of_ids(tmp_path: Path) -> None:
    devices = [device("a", env=["A=1", "WHO=a"]), device("b", env=["WHO=b"])]
    write(tmp_path, "one.json", spec(devices=devices, containerEdits={"env": ["COMMON=x", "WHO=all"]}))
    specs = Specs([tmp_path])
    assert specs.edits(["vendor.com/gpu=a", "vendor.com/gpu=b"]).edits.env == ("COMMON=x", "A=1", "WHO=b")
    assert specs.edits(["vendor.com/gpu=b", "vendor.com/gpu=a"]).edits.env == ("COMMON=x", "A=1", "WHO=a")
    assert specs.edits([]).edits.empty


def test_an_id_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path, "a.json", spec({"hooks": [{"hookName": "poststop", "path": "/x"}]}))
    assert len(Specs([tmp_path]).edits(["vendor.com/gpu=gpu0"] * 2).edits.hooks) == 1


def test_who_overrules_whom_is_said(tmp_path: Path) -> None:
    devices = [device("a", env=["X=1"]), device("b", env=["X=2"]), device("c", env=["X=2"])]
    write(tmp_path, "one.json", spec(devices=devices))
    merged = Specs([tmp_path]).edits([f"vendor.com/gpu={name}" for name in "abc"])
    assert merged.conflicts == ("env X of vendor.com/gpu=a is overruled by vendor.com/gpu=b",)


def test_a_later_mount_or_node_at_a_place_replaces_the_earlier(tmp_path: Path) -> None:
    devices = [
        device("a", mounts=[{"hostPath": "/a", "containerPath": "/x"}], deviceNodes=[{"path": "/dev/x", "major": 1}]),
        device("b", mounts=[{"hostPath": "/b", "containerPath": "/x"}], deviceNodes=[{"path": "/dev/x", "major": 2}]),
    ]
    write(tmp_path, "one.json", spec(devices=devices))
    edits = Specs([tmp_path]).edits(["vendor.com/gpu=a", "vendor.com/gpu=b"]).edits
    assert [mount.hostPath for mount in edits.mounts] == ["/b"]
    assert [node.major for node in edits.deviceNodes] == [2]


def test_a_device_that_two_files_define_is_unusable_and_both_are_named(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.json", spec()), write(tmp_path, "b.json", spec())
    with pytest.raises(CdiError, match=f"more than once: {first}, {second}"):
        Specs([tmp_path]).edits(["vendor.com/gpu=gpu0"])


def test_a_later_directory_overrules_an_earlier_one(tmp_path: Path) -> None:
    for number in ("1", "2"):
        write(tmp_path / "first", f"{number}.json", spec({"env": ["FROM=first"]}))
    write(tmp_path / "second", "a.json", spec({"env": ["FROM=second"]}))
    specs = Specs([tmp_path / "first", tmp_path / "second", tmp_path / "missing"])
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("FROM=second",)


def test_a_bad_file_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    write(tmp_path, "good.json", spec())
    bad = write(tmp_path, "bad.json", spec(kind="nope"))
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "notes.txt").write_text("not a spec")
    specs = Specs([tmp_path])
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=b",)
    assert sorted(file.name for file in specs.errors) == ["bad.json", "broken.yaml"]
    with pytest.raises(CdiError, match=f"unknown: no spec in {tmp_path} defines it; bad file {bad}"):
        specs.edits(["vendor.com/gpu=other"])


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    specs = Specs([tmp_path])
    with pytest.raises(CdiError, match="unknown"):
        specs.edits(["vendor.com/gpu=gpu0"])
    file = write(tmp_path, "a.json", spec())
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=b",)
    file.write_text(json.dumps(spec({"env": ["A=changed"]})))
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=changed",)
    file.unlink()
    with pytest.raises(CdiError, match="unknown"):
        specs.edits(["vendor.com/gpu=gpu0"])


def test_yaml_is_read_too(tmp_path: Path) -> None:
    text = "cdiVersion: 0.6.0\nkind: vendor.com/gpu\ndevices: [{name: gpu0, containerEdits: {env: [A=b]}}]\n"
    (tmp_path / "a.yaml").write_text(text)
    assert Specs([tmp_path]).edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=b",)


@pytest.mark.parametrize(
    "text",
    [
        "cdiVersion: !!bool maybe",
        'cdiVersion: !!int ""',
        "cdiVersion: 0x" + "f" * 20_000,
        "kind: !!float .",
        "kind: !!timestamp x",
        "&a [" * 2000,
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{y}: &{y} [{', '.join(['*' + x] * 10)}]\n" for x, y in itertools.pairwise("abcdefghij")),
    ],
    ids=["bool", "int", "digits", "float", "time", "deep", "aliases"],
)
def test_a_bad_file_is_named_in_the_log_and_leaves_others_usable(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "good.json", spec())
    (tmp_path / "bad.yaml").write_text(text)
    specs = Specs([tmp_path])
    for _ in range(2):
        assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=b",)
    assert [*specs.errors] == [tmp_path / "bad.yaml"]
    assert len(specs.errors[tmp_path / "bad.yaml"]) < 1000
    assert [r.message.startswith(f"CDI spec ignored: {tmp_path}/bad.yaml: ") for r in caplog.records] == [True]


def test_what_is_no_regular_file_is_left_out_at_once(tmp_path: Path) -> None:
    write(tmp_path, "good.json", spec())
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "directory.json").mkdir()
    with (tmp_path / "huge.json").open("wb") as stream:
        stream.truncate(1 << 30)
    specs = Specs([tmp_path])
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=b",)
    assert sorted(f.name for f in specs.errors) == ["directory.json", "fifo.json", "huge.json", "zero.json"]


def test_a_bad_file_is_parsed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(cdi, "parse", lambda data, name: (parsed.append(name), parse(data, name))[1])
    bad = write(tmp_path, "bad.json", spec(kind="nope"))
    specs = Specs([tmp_path])
    for _ in range(3):
        with pytest.raises(CdiError, match=f"bad file {bad}"):
            specs.edits(["vendor.com/gpu=gpu0"])
    assert parsed == [str(bad)]
    write(tmp_path, "bad.json", spec({"env": ["A=now good"]}))
    assert specs.edits(["vendor.com/gpu=gpu0"]).edits.env == ("A=now good",)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cdiVersion", "kind", "devices", "name", "containerEdits", "env", "x"]), children
        )
    ),
    max_leaves=12,
)


def complaint(data: bytes, name: str) -> str:
    """What is said of a file; empty when nothing is wrong. Anything but a CdiError fails the test."""
    try:
        parse(data, name)
    except CdiError as error:
        return str(error)
    return ""


@given(_JSON)
def test_whatever_stands_in_a_file_is_read_or_refused(tree: Any) -> None:
    said = complaint(json.dumps(tree).encode(), "file.json")
    assert said == "" or said.startswith("file.json: ")


@given(st.binary(max_size=60), st.sampled_from(["a.json", "a.yaml"]))
def test_bytes_are_read_or_refused(data: bytes, name: str) -> None:
    said = complaint(data, name)
    assert said == "" or said.startswith(name)
