"""Writes an OCI image layout (image-spec 1.0): layers, configuration, manifest and index. The same files give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Layer:
    """A directory as an archive: sorted, owned by root, with one time for all files."""

    diff_id: str  # digest of the archive before compression
    data: bytes

    @classmethod
    def of(cls, root: Path, epoch: int, compression: int) -> Layer:
        archive = _archive(root, epoch)
        return cls(_digest(archive), gzip.compress(archive, compression, mtime=0))

    @classmethod
    def load(cls, file: Path) -> Layer | None:
        """Read a layer that `save` wrote. Returns None if there is none."""
        if not file.exists():
            return None
        diff_id, _, data = file.read_bytes().partition(b"\n")
        return cls(diff_id.decode(), data)

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_bytes(self.diff_id.encode() + b"\n" + self.data)
        new.replace(file)


def _archive(root: Path, epoch: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            info = archive.gettarinfo(str(path), str(path.relative_to(root)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime, info.mode = epoch, _mode(path)
            if info.islnk():  # to a file that is in the archive already; a copy is the same for everybody
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            if info.isreg():
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return stream.getvalue()


def _mode(path: Path) -> int:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return 0o777
    if stat.S_ISDIR(mode):
        return 0o1777 if path.name == "tmp" else 0o755
    return 0o755 if mode & 0o100 else 0o644


class Layout:
    """A layout with one image in a directory, which is made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "blobs/sha256").mkdir(parents=True)

    def write(self, tag: str, layers: Sequence[Layer], run: Mapping[str, Any], architecture: str, created: str) -> str:
        """Write an image under a tag. Returns the digest of its manifest."""
        config = {
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": dict(run),
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._blob(_json(config), _CONFIG),
            "layers": [self._blob(layer.data, _LAYER) for layer in layers],
        }
        described = self._blob(_json(manifest), _MANIFEST)
        described["annotations"] = {"org.opencontainers.image.ref.name": tag}
        described["platform"] = {"architecture": architecture, "os": "linux"}
        index = {"schemaVersion": 2, "manifests": [described]}
        (self._directory / "index.json").write_bytes(_json(index))
        (self._directory / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        return str(described["digest"])

    def _blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        digest = _digest(data)
        (self._directory / "blobs/sha256" / digest.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(tree: Any) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode() + os.linesep.encode()
