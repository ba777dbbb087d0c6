"""Images in directories of this machine: OCI layouts, and archives as `docker save` and `skopeo copy` write them.

An image name in a layout is a whole reference or only a tag. A tag belongs to the repository that the layout's path
names, so `DIR/example.com/app` with the tag `1.0` is `example.com/app:1.0`. This module extracts nothing. Left out:
unpacking.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from dray.files import open_regular
from dray.node.images.manifest import (
    MOST_MANIFEST_BYTES,
    Descriptor,
    ImageError,
    ImageIndex,
    Manifest,
    check_digest,
    choose,
    decoded,
    hasher,
    is_index,
)
from dray.node.images.reference import ImageName, InvalidImageName
from dray.node.images.unpack import MOST_BYTES

_REF_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_MOST_LAYOUTS = 10_000  # files examined below one directory


@dataclass(frozen=True)
class Layer:
    """An image layer that can be opened. Its digest is checked while it is read; an empty digest is not checked.

    `size` is in bytes.
    """

    digest: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class FoundImage:
    digest: str  # digest of the manifest, or of the configuration if there is no manifest
    config: bytes
    layers: tuple[Layer, ...]


OpenMember = Callable[[str], AbstractContextManager[IO[bytes]]]  # opens a file of a layout by its path


class Archives:
    """Lookup of images below some directories. Each lookup reads the directories again."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories

    def find(self, name: ImageName) -> FoundImage | None:
        for directory in self._directories:
            for place, repository in _places(directory):
                read = _reader(place)
                found = None
                with contextlib.suppress(FileNotFoundError, KeyError):
                    found = _in_layout(read, repository, name, str(place))
                if found is None and place.is_file():
                    with contextlib.suppress(FileNotFoundError, KeyError):
                        found = _in_docker_archive(read, name, str(place))
                if found is not None:
                    return found
        return None


def _places(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield each layout and archive below a directory with the repository that its path names.

    The repository is the path relative to the directory, for an archive without its suffix. At most `_MOST_LAYOUTS`
    files are looked at.
    """
    left = _MOST_LAYOUTS
    for parent, directories, files in os.walk(directory):
        here = Path(parent)
        if "index.json" in files and "oci-layout" in files:
            directories.clear()
            yield here, str(here.relative_to(directory))
            continue
        directories.sort()
        for file in sorted(files):
            left -= 1
            if left < 0:
                return
            if file.endswith((".tar", ".tar.gz", ".tgz")) and (here / file).is_file():
                yield here / file, str((here / file.partition(".tar")[0].removesuffix(".tgz")).relative_to(directory))


def _reader(place: Path) -> OpenMember:
    if place.is_dir():
        return lambda path: _opened(place / path)
    return lambda path: _archived(place, path)


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    try:
        return cast("AbstractContextManager[IO[bytes]]", open_regular(file, MOST_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ImageError(f"{file}: {error.strerror}") from error


@contextlib.contextmanager
def _archived(place: Path, path: str) -> Iterator[IO[bytes]]:
    try:
        with _opened(place) as file, tarfile.open(fileobj=file) as archive:
            member = archive.extractfile(path)
            if member is None:
                raise ImageError(f"{place}: {path} is not a file")
            yield member
    except (tarfile.TarError, EOFError, RecursionError) as error:
        raise ImageError(f"{place}: {error}") from error


def _small(read: OpenMember, path: str, what: str) -> bytes:
    """Return the content of a small file, such as a manifest. Raises `ImageError` if it is too large.

    `what` names the image in the error.
    """
    with read(path) as stream:
        data = stream.read(MOST_MANIFEST_BYTES + 1)
    if len(data) > MOST_MANIFEST_BYTES:
        raise ImageError(f"{what}: {path} has more than {MOST_MANIFEST_BYTES} bytes")
    return data


# OCI layouts


def _in_layout(read: OpenMember, repository: str, name: ImageName, what: str) -> FoundImage | None:
    index = decoded(_small(read, "index.json", what), ImageIndex, f"{what}: index.json")
    for descriptor in index.manifests:
        if _is_meant(descriptor, repository, name, alone=len(index.manifests) == 1):
            return _from_layout(read, descriptor, what)
    return None


def _is_meant(descriptor: Descriptor, repository: str, name: ImageName, alone: bool) -> bool:
    """Whether an entry of an index is the image with this name.

    A digest in the name decides alone. Otherwise the entry's own name counts; without one, the only entry (`alone`)
    is the image `latest` of `repository`.
    """
    if name.digest:
        return descriptor.digest == name.digest
    named = next((descriptor.annotations[key] for key in _REF_NAMES if key in descriptor.annotations), "")
    own = {f"{name.registry}/{name.repository}", name.repository, name.repository.removeprefix("library/")}
    if not named:
        return alone and name.tag == "latest" and repository in own
    if "/" in named or ":" in named:
        with contextlib.suppress(InvalidImageName):
            return ImageName.parse(named).full == name.full
        return False
    return named == name.tag and repository in own


def _blob(digest: str) -> str:
    hasher(digest)  # raises an error for an invalid digest, which could otherwise be any path
    return f"blobs/{digest.replace(':', '/')}"


def _from_layout(read: OpenMember, descriptor: Descriptor, what: str) -> FoundImage:
    data = check_digest(_small(read, _blob(descriptor.digest), what), descriptor.digest, what)
    if is_index(data, descriptor.mediaType):
        return _from_layout(read, choose(decoded(data, ImageIndex, what), what), what)
    manifest = decoded(data, Manifest, what)
    config = check_digest(_small(read, _blob(manifest.config.digest), what), manifest.config.digest, what)
    layers = tuple(Layer(d.digest, d.size, partial(read, _blob(d.digest))) for d in manifest.layers)
    return FoundImage(descriptor.digest, config, layers)


# Archives of `docker save`


class _Saved(msgspec.Struct, frozen=True):
    Config: str
    Layers: tuple[str, ...]
    RepoTags: tuple[str, ...] | None = ()


def _in_docker_archive(read: OpenMember, name: ImageName, what: str) -> FoundImage | None:
    for image in decoded(_small(read, "manifest.json", what), tuple[_Saved, ...], f"{what}: manifest.json"):
        if any(_same(tag, name) for tag in image.RepoTags or ()):
            config = _small(read, image.Config, what)
            layers = tuple(Layer("", -1, partial(read, path)) for path in image.Layers)
            return FoundImage(f"sha256:{hashlib.sha256(config).hexdigest()}", config, layers)
    return None


def _same(tag: str, name: ImageName) -> bool:
    with contextlib.suppress(InvalidImageName):
        return not name.digest and ImageName.parse(tag).full == name.full
    return False


class Verified(io.RawIOBase):
    """A readable blob. `finish` raises `ImageError` if the blob's digest is wrong; an empty digest is not checked."""

    def __init__(self, stream: IO[bytes], digest: str) -> None:
        self._stream = stream
        self._digest = digest
        self._hash: Any = hasher(digest) if digest else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        if self._hash is not None:
            self._hash.update(data)
        return len(data)

    def finish(self, what: str) -> None:
        while chunk := self._stream.read(1 << 20):
            if self._hash is not None:
                self._hash.update(chunk)
        found = f"{self._digest.partition(':')[0]}:{self._hash.hexdigest()}" if self._hash is not None else ""
        if found != self._digest:
            raise ImageError(f"{what}: the digest is {found}, expected {self._digest}")
