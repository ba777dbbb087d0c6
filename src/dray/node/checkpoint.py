"""Checkpoint of the claims prepared on this node, written before and after every call to a driver.

The file survives an agent that is killed at any point: a claim is in it from before its first prepare call until
after its last unprepare call, so no claim is forgotten and none is prepared twice. The file has a version and a
checksum and is replaced atomically; an unreadable file is kept under another name and reported. Left out: what the
entries mean (`claims`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

import msgspec

from dray.files import read_regular
from dray.node.shim import reserve, write_whole

log = logging.getLogger(__name__)

_MOST_BYTES = 256 << 20  # a claim needs about a kilobyte

VERSION = 1
_RESERVED_BYTES = 16 << 10  # disk space reserved for growth of the file


class CheckpointedDevice(msgspec.Struct, frozen=True):
    """One device of a driver's prepare answer: the requests that it serves (empty: all) and its CDI ids."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: tuple[str, ...] = ()
    share: str = ""  # id of the device's share; empty for a whole device

    def serves(self, request: str) -> bool:
        """Whether a container that names this request gets the device.

        An empty `request` matches every device, and a device without requests serves every request. A request also
        gets the devices of its subrequests, which are named `request/subrequest`.
        """
        if not request or not self.requests:
            return True
        return any(name == request or name.partition("/")[0] == request for name in self.requests)


class DriverShare(msgspec.Struct, frozen=True):
    """The part of a claim that one driver prepares. `devices` is None until the driver's prepare call has succeeded.

    With `stays`, the driver's unprepare call is skipped when no pod uses the claim any more.
    """

    driver: str
    devices: tuple[CheckpointedDevice, ...] | None = None
    stays: bool = False


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim that drivers were asked to prepare.

    `pods` maps the uids of the pods that use the claim to the entries of `spec.resourceClaims` that refer to it. A
    pod stays listed until the claim is unprepared or another pod uses it. `leaving` is True once unprepare has begun.
    """

    uid: str
    namespace: str
    name: str
    pods: dict[str, tuple[str, ...]]
    shares: tuple[DriverShare, ...]
    leaving: bool = False

    @property
    def prepared(self) -> bool:
        return not self.leaving and all(share.devices is not None for share in self.shares)


class _CheckpointFile(msgspec.Struct, frozen=True):
    version: int
    checksum: str
    claims: msgspec.Raw


class CorruptCheckpoint(Exception):
    """The checkpoint file exists but is not usable: its version or its checksum is wrong."""


class Checkpoint:
    """The claims that are prepared or are about to be, by uid, kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.claims: dict[str, PreparedClaim] = {}

    @classmethod
    def open(cls, file: Path) -> tuple[Checkpoint, str]:
        """Read the file. Returns the checkpoint and the problem found, which is "" if the file was missing or good.

        An unusable file is renamed, and the checkpoint starts empty.
        """
        checkpoint = cls(file)
        try:
            checkpoint.claims = _decode(read_regular(file, _MOST_BYTES))
        except FileNotFoundError:
            return checkpoint, ""
        except (msgspec.MsgspecError, CorruptCheckpoint, UnicodeDecodeError) as error:
            kept = _kept_name(file)
            file.replace(kept)
            problem = f"checkpoint {file} is unusable ({error}): kept as {kept}, the node starts with an empty one"
            log.error("%s", problem)
            return checkpoint, problem
        return checkpoint, ""

    def put(self, *claims: PreparedClaim) -> None:
        """Add or replace entries and write the file."""
        self._write(self.claims | {claim.uid: claim for claim in claims})

    def remove(self, *uids: str) -> None:
        self._write({uid: claim for uid, claim in self.claims.items() if uid not in uids})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        """Write the claims to disk, then replace them in memory, so that memory never runs ahead of the disk.

        Nothing is written if nothing changed. Raises OSError if writing fails; then memory keeps the old claims.
        """
        if claims == self.claims:
            return
        data = _encode(claims)
        write_whole(str(self.file), data, sync=True)
        _sync_directory(self.file.parent)
        self.claims = claims
        # Pods can be removed from a full disk only if their claims can be unprepared.
        with contextlib.suppress(OSError):
            reserve(str(self.file), len(data) + _RESERVED_BYTES)


def _encode(claims: dict[str, PreparedClaim]) -> bytes:
    body = msgspec.json.encode(sorted(claims.values(), key=lambda claim: claim.uid))
    return msgspec.json.encode(_CheckpointFile(VERSION, hashlib.sha256(body).hexdigest(), msgspec.Raw(body)))


def _decode(data: bytes) -> dict[str, PreparedClaim]:
    file = msgspec.json.decode(data, type=_CheckpointFile)
    if file.version != VERSION:
        raise CorruptCheckpoint(f"version {file.version}, expected {VERSION}")
    if hashlib.sha256(file.claims).hexdigest() != file.checksum:
        raise CorruptCheckpoint("the checksum does not match")
    return {claim.uid: claim for claim in msgspec.json.decode(file.claims, type=list[PreparedClaim])}


def _kept_name(file: Path) -> Path:
    number = 1
    while (kept := file.with_name(f"{file.name}.corrupt-{number}")).exists():
        number += 1
    return kept


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
