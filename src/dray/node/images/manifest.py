"""Manifests, indexes and configurations of images in the formats of OCI and Docker, and checks of digests. Pure."""

from __future__ import annotations

import hashlib
import platform
import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MOST_MANIFEST_BYTES = 4 << 20  # as registries allow at most
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


class ImageError(Exception):
    """An image cannot be obtained or used. The text gives the reason."""


class Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(msgspec.Struct, frozen=True):
    """Reference to a blob: media type, digest, size and platform.

    The size is in bytes. The platform is None if it is not given.
    """

    digest: str
    mediaType: str = ""
    size: int = -1
    platform: Platform | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Manifest(msgspec.Struct, frozen=True):
    config: Descriptor
    layers: tuple[Descriptor, ...]
    mediaType: str = ""


class ImageIndex(msgspec.Struct, frozen=True):
    manifests: tuple[Descriptor, ...]
    mediaType: str = ""


class RunConfig(msgspec.Struct, frozen=True):
    """How an image is to be run: user, environment, entrypoint, default arguments and working directory."""

    User: str | None = ""
    Env: tuple[str, ...] | None = ()
    Entrypoint: tuple[str, ...] | None = ()
    Cmd: tuple[str, ...] | None = ()
    WorkingDir: str | None = ""


class RootFs(msgspec.Struct, frozen=True):
    diff_ids: tuple[str, ...] = ()


class ImageConfig(msgspec.Struct, frozen=True):
    config: RunConfig | None = None
    rootfs: RootFs = RootFs()
    architecture: str = ""
    os: str = ""


def decoded(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ImageError(f"{what}: {error}") from error


def is_index(data: bytes, media_type: str) -> bool:
    if media_type in INDEXES or media_type in MANIFESTS:
        return media_type in INDEXES
    tree = msgspec.json.decode(data, type=dict) if data.lstrip()[:1] == b"{" else {}
    return "manifests" in tree


def architecture() -> str:
    """Return this machine's architecture as images and nodes name it, such as amd64.

    An unknown machine type is returned as the system names it.
    """
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def choose(index: ImageIndex, what: str) -> Descriptor:
    """Return the descriptor of the image for this machine's platform. Raises `ImageError` if the index has none.

    An entry without a platform fits every machine but comes after one that names this platform. `what` names the
    image in the error.
    """
    wanted = architecture()
    fitting = [
        d
        for d in index.manifests
        if d.platform is None or (d.platform.os, d.platform.architecture) == ("linux", wanted)
    ]
    if not fitting:
        raise ImageError(f"{what}: no match for platform linux/{wanted}")
    return next((d for d in fitting if d.platform is not None), fitting[0])


def hasher(digest: str) -> hashlib._Hash:
    if not _DIGEST.fullmatch(digest):
        raise ImageError(f"digest {digest[:100]!r}: expected sha256 or sha512 in hexadecimal")
    return hashlib.new(digest.partition(":")[0])


def check_digest(data: bytes, digest: str, what: str) -> bytes:
    check = hasher(digest)
    check.update(data)
    found = f"{digest.partition(':')[0]}:{check.hexdigest()}"
    if found != digest:
        raise ImageError(f"{what}: the digest is {found}, expected {digest}")
    return data
