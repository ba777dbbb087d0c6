"""Translation of host paths that pods and drivers name.

A driver expects the directories of a kubelet and of CDI at their usual places. An agent has them in its own root, so
that it runs without root rights and several agents can share a machine. All other paths are unchanged. Left out:
mounting.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec.structs import replace

from dray.api.cdi import CdiEdits
from dray.node.environment import ConfigProblem

KUBELET = "/var/lib/kubelet"
_TESTS = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


class HostPaths:
    """Translator of host paths for an agent with this root directory."""

    def __init__(self, root: Path) -> None:
        cdi = str(root / "cdi")
        self._moved = {KUBELET: str(root), "/var/run/cdi": cdi, "/run/cdi": cdi, "/etc/cdi": cdi}

    def locate(self, path: str) -> str:
        """Return the real place of a path: in the agent's root for kubelet and CDI directories, otherwise unchanged.

        The result is normalized.
        """
        path = os.path.normpath(path)
        for usual, own in self._moved.items():
            if path == usual or path.startswith(f"{usual}/"):
                return own + path.removeprefix(usual)
        return path

    def moved(self, edits: CdiEdits) -> CdiEdits:
        """Return the edits with the host paths of their mounts translated to their real places."""
        mounts = tuple(replace(mount, hostPath=self.locate(mount.hostPath)) for mount in edits.mounts)
        return edits if mounts == edits.mounts else replace(edits, mounts=mounts)

    def prepare(self, path: str, kind: str) -> str:
        """Create and check the path of a hostPath volume of type `kind`. Returns its real place.

        Raises `ConfigProblem` if the path does not exist or has the wrong type.
        """
        place = self.locate(path)
        try:
            self._create(place, kind, own=place != os.path.normpath(path))
            found = os.stat(place).st_mode
        except FileNotFoundError as error:
            raise ConfigProblem(f"hostPath {path} does not exist") from error
        except (OSError, ValueError) as error:
            raise ConfigProblem(f"hostPath {path}: {error}") from error
        test, what = _TESTS.get(kind, (None, ""))
        if test is not None and not test(found):
            raise ConfigProblem(f"hostPath type check failed: {path} is not a {what}")
        return place

    def _create(self, place: str, kind: str, own: bool) -> None:
        if kind == "DirectoryOrCreate" or (own and kind in ("", "Directory")):
            if not os.path.exists(place):
                os.makedirs(place, 0o755, exist_ok=True)
        elif kind == "FileOrCreate":
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644))
