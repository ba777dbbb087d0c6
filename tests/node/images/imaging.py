"""Images made for tests: layouts from files in memory, and one with a shell that runs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Entry = bytes | str | tarfile.TarInfo  # a file, a link to somewhere, or anything
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def layer(entries: Mapping[str, Entry]) -> bytes:
    """A layer as a plain archive: bytes are files, texts are links, names that end in / are directories."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, entry in entries.items():
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(entry, bytes):
                info.size, info.mode = len(entry), 0o755
                archive.addfile(info, io.BytesIO(entry))
                continue
            if isinstance(entry, str):
                info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.SYMTYPE
                info.mode, info.linkname = 0o755, entry
            archive.addfile(info)
    return stream.getvalue()


def special(name: str, kind: bytes, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """An OCI layout in a directory, to which images are added."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "blobs" / "sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self._manifests: list[dict[str, Any]] = []

    def blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        (self.directory / "blobs" / "sha256" / digest(data)[7:]).write_bytes(data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def add(self, name: str, layers: Sequence[bytes], diff_ids: Sequence[str] | None = None, **run: Any) -> str:
        """Add an image; the digest of its manifest."""
        ids = [digest(data) for data in layers] if diff_ids is None else diff_ids
        config = {"architecture": "amd64", "os": "linux", "config": run, "rootfs": {"type": "layers", "diff_ids": ids}}
        gzipped = "application/vnd.oci.image.layer.v1.tar+gzip"
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [self.blob(gzip.compress(data, 1), gzipped) for data in layers],
        }
        entry = self.blob(json.dumps(manifest).encode(), MANIFEST)
        self._manifests.append(entry | {"annotations": {"org.opencontainers.image.ref.name": name}})
        index = {"schemaVersion": 2, "manifests": self._manifests}
        (self.directory / "index.json").write_text(json.dumps(index))
        found: str = entry["digest"]
        return found


def shell_layer() -> bytes:
    """A small file system with a shell and a few programs of this machine, and the libraries that they need."""
    programs = ["/bin/sh", "/bin/cat", "/usr/bin/id", "/bin/ls", "/bin/sleep", "/usr/bin/touch", "/usr/bin/env"]
    entries: dict[str, Entry] = {"tmp/": "", "etc/": "", "run/": "", "var/": "", "var/run": "/run"}
    entries["etc/passwd"] = b"root:x:0:0::/:/bin/sh\nworker:x:1234:2345::/:/bin/sh\n"
    for program in programs:
        entries[f"bin/{os.path.basename(program)}"] = Path(program).resolve().read_bytes()
        for word in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split():
            if word.startswith("/"):
                entries[word[1:]] = Path(word).resolve().read_bytes()
    return layer(entries)
