"""What this node has prepared, written down before and after every call to a driver.

The file outlives the agent, killed at any point: a claim is in it from before its first prepare until after its last
unprepare, so nothing is forgotten and nothing prepared twice. Versioned, checksummed and replaced atomically; a file
that cannot be read is kept aside and reported. Left out: what the entries mean, which is `claims`.
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

_MOST_BYTES = 256 << 20  # a claim takes about a kilobyte

VERSION = 1
_RESERVED_BYTES = 16 << 10  # that the next state of the file may have more


class CheckpointedDevice(msgspec.Struct, frozen=True):
    """One device as the driver answered: for which requests (none: all), and the CDI ids that bring it along."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: tuple[str, ...] = ()
    share: str = ""  # which share of the device; empty for the whole

    def serves(self, request: str) -> bool:
        """Whether a container that names this request (empty: none) gets the device."""
        if not request or not self.requests:
            return True
        return any(name == request or name.partition("/")[0] == request for name in self.requests)


class DriverShare(msgspec.Struct, frozen=True):
    """The part of a claim that one driver prepares. `devices` is None until it has succeeded.

    With `stays`, the driver need not be told when nobody uses the claim any more.
    """

    driver: str
    devices: tuple[CheckpointedDevice, ...] | None = None
    stays: bool = False


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim that drivers were asked to prepare.

    `pods` are the uids of those that want it, each with the entries of its spec that the claim stands for. A pod stays
    until the claim is unprepared, or another pod takes over; `leaving` says that unprepare has begun.
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
    """The file was there and could not be used; it was kept under another name."""


class Checkpoint:
    """The claims that are prepared, or are about to be, by uid."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.claims: dict[str, PreparedClaim] = {}

    @classmethod
    def open(cls, file: Path) -> tuple[Checkpoint, str]:
        """Read the file; the text says what was wrong with it, and is empty when nothing was."""
        checkpoint = cls(file)
        try:
            checkpoint.claims = _decode(read_regular(file, _MOST_BYTES))
        except FileNotFoundError:
            return checkpoint, ""
        except (msgspec.MsgspecError, CorruptCheckpoint, UnicodeDecodeError) as error:
            kept = _kept_name(file)
            file.replace(kept)
            problem = f"checkpoint {file} cannot be used ({error}); it was kept as {kept}, and the node starts without"
            log.error("%s", problem)
            return checkpoint, problem
        return checkpoint, ""

    def put(self, *claims: PreparedClaim) -> None:
        """Add or replace entries and write the file."""
        self._write(self.claims | {claim.uid: claim for claim in claims})

    def remove(self, *uids: str) -> None:
        self._write({uid: claim for uid, claim in self.claims.items() if uid not in uids})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        """The entries change in memory only after they are safe on disk."""
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
