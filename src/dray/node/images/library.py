"""The images that this node has, each unpacked once and stored by digest, and the names under which they were pulled.

An image appears completely or not at all: it is unpacked in a temporary directory, which is then renamed. Left out:
removing images.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.files import read_regular
from dray.node.images.archives import FoundImage, Verified
from dray.node.images.manifest import ImageConfig, ImageError, RunConfig, decoded
from dray.node.images.unpack import MOST_BYTES, Unpacking
from dray.node.private import make_private, write_private

_NEW = ".new-"


@dataclass(frozen=True)
class StoredImage:
    digest: str
    rootfs: Path
    run: RunConfig
    size: int


class Library:
    """Store of unpacked images in a directory."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._names: dict[str, str] = {}
        if directory.is_dir():
            for left in directory.glob(f"{_NEW}*"):
                shutil.rmtree(left, ignore_errors=True)
            if (directory / "names.json").exists():
                self._names = json.loads(read_regular(directory / "names.json"))

    def named(self, name: str) -> StoredImage | None:
        """Return the image that was last pulled under this name, or None if there is none or it was removed."""
        digest = self._names.get(name)
        return None if digest is None else self.get(digest)

    def digests(self) -> list[str]:
        return [*dict.fromkeys(self._names.values())]

    def get(self, digest: str) -> StoredImage | None:
        place = self._place(digest)
        try:
            told = json.loads(read_regular(place / "image.json"))
        except FileNotFoundError:
            return None
        config = decoded(read_regular(place / "config.json"), ImageConfig, digest)
        return StoredImage(digest, place / "rootfs", config.config or RunConfig(), told["size"])

    def remember(self, name: str, digest: str) -> None:
        """Record that a name now stands for the image with this digest."""
        if self._names.get(name) != digest:
            self._names = self._names | {name: digest}
            new = self._directory / f"{_NEW}names"
            write_private(new, json.dumps(self._names).encode())
            new.replace(self._directory / "names.json")

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """Provide a temporary directory in the library; it is removed at the end of the `with` block."""
        make_private(self._directory)
        place = self._directory / f"{_NEW}{secrets.token_hex(6)}"
        place.mkdir(mode=0o700)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def add(self, found: FoundImage) -> StoredImage:
        """Unpack an image unless the library has it already. Returns the stored image. Slow: call it in a thread.

        Raises ImageError if the image cannot be unpacked.
        """
        known = self.get(found.digest)
        if known is not None:
            return known
        config = decoded(found.config, ImageConfig, found.digest)
        with self.workshop() as place:
            (place / "rootfs").mkdir()
            _unpack(found, config, place / "rootfs", self._most_bytes)
            (place / "config.json").write_bytes(found.config)
            size = sum(max(0, layer.size) for layer in found.layers)
            (place / "image.json").write_text(json.dumps({"digest": found.digest, "size": size}))
            target = self._place(found.digest)
            if not target.exists():
                os.rename(place, target)
        stored = self.get(found.digest)
        assert stored is not None
        return stored

    def _place(self, digest: str) -> Path:
        return self._directory / digest.replace(":", "-").replace("/", "-")


def _unpack(found: FoundImage, config: ImageConfig, directory: Path, most_bytes: int) -> None:
    ids = config.rootfs.diff_ids
    if len(ids) != len(found.layers):
        raise ImageError(f"{found.digest}: {len(found.layers)} layers, but {len(ids)} in the configuration")
    unpacking = Unpacking(directory, most_bytes)
    try:
        for number, (layer, diff_id) in enumerate(zip(found.layers, ids, strict=True)):
            what = f"layer {number} of {found.digest}"
            with layer.open() as stream:
                verified = Verified(stream, layer.digest)
                unpacking.layer(io.BufferedReader(verified, 1 << 20), diff_id, what)
                verified.finish(what)
    finally:
        unpacking.close()
    directory.chmod(0o755)
