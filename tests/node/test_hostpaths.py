"""Host paths: those of a kubelet are the agent's own, and types are checked."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dray.api.cdi import CdiEdits, CdiMount
from dray.node.environment import ConfigProblem
from dray.node.hostpaths import HostPaths


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/var/lib/kubelet/plugins/", "plugins"),
        ("/var/lib/kubelet/plugins_registry", "plugins_registry"),
        ("/var/lib/kubelet/pods", "pods"),
        ("/var/lib/kubelet", "."),
        ("/var/run/cdi", "cdi"),
        ("/run/cdi", "cdi"),
        ("/etc/cdi/sub", "cdi/sub"),
    ],
)
def test_directories_of_a_kubelet_are_below_the_root(tmp_path: Path, path: str, place: str) -> None:
    found = HostPaths(tmp_path).prepare(path, "")
    assert os.path.normpath(found) == str(tmp_path / place)
    assert os.path.isdir(found)


def test_other_paths_are_where_they_say(tmp_path: Path) -> None:
    paths = HostPaths(tmp_path)
    assert [paths.locate(p) for p in ("/", "/var/lib/kubelet2", "/etc")] == ["/", "/var/lib/kubelet2", "/etc"]


def test_mounts_of_devices_come_from_the_same_places(tmp_path: Path) -> None:
    edits = CdiEdits(env=("A=b",), mounts=(CdiMount("/var/lib/kubelet/plugins/d/m.json", "/m"), CdiMount("/usr", "/u")))
    assert [m.hostPath for m in HostPaths(tmp_path).moved(edits).mounts] == [f"{tmp_path}/plugins/d/m.json", "/usr"]


def test_types_are_made_and_checked(tmp_path: Path) -> None:
    paths = HostPaths(tmp_path / "root")
    assert os.path.isdir(paths.prepare(f"{tmp_path}/new/deep", "DirectoryOrCreate"))
    assert os.path.isfile(paths.prepare(f"{tmp_path}/file", "FileOrCreate"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        paths.prepare(f"{tmp_path}/s", "Socket")
    paths.prepare("/dev/null", "CharDevice")
    for path, kind, text in [
        (f"{tmp_path}/file", "Directory", "is not a directory"),
        (f"{tmp_path}/new", "File", "is not a file"),
        ("/dev/null", "Socket", "is not a socket file"),
        ("/dev/null", "BlockDevice", "is not a block device"),
    ]:
        with pytest.raises(ConfigProblem, match=f"hostPath type check failed: {path} {text}"):
            paths.prepare(path, kind)
    with pytest.raises(ConfigProblem, match="hostPath /no/such does not exist"):
        paths.prepare("/no/such", "")
