"""Records which claims are prepared, across restarts of the driver: one small file for each claim.

The record is written before any work for a claim and removed after everything is undone, so nothing that was begun is
forgotten. Two instances that overlap in a rolling update read the same files. Left out: preparing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dray.driver.cdi import write_atomically
from dray.driver.claims import ClaimReference
from dray.files import read_regular

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_VERSION = 1


class PreparedDeviceRecord(msgspec.Struct, frozen=True):
    """One prepared device, as reported to the node agent.

    `share_id` is "" for a device that is not shared.
    """

    request: str
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


class PreparedClaimRecord(msgspec.Struct, frozen=True):
    """Record of one claim. Without `answers`, preparing has begun but not finished.

    `boot` identifies the boot of the machine; `answers` is None until preparing has succeeded.
    """

    version: int
    namespace: str
    name: str
    uid: str
    boot: str
    answers: tuple[PreparedDeviceRecord, ...] | None = None
    own_specs: bool = False  # whether this driver wrote a CDI file for the claim

    @property
    def reference(self) -> ClaimReference:
        return ClaimReference(self.namespace, self.name, self.uid)


class PreparedClaims:
    """The records of one driver on one node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._boot = _boot_id()

    def begin(self, claim: ClaimReference) -> None:
        self._write(PreparedClaimRecord(_VERSION, claim.namespace, claim.name, claim.uid, self._boot))

    def finish(self, claim: ClaimReference, answers: tuple[PreparedDeviceRecord, ...], own_specs: bool) -> None:
        self._write(
            PreparedClaimRecord(_VERSION, claim.namespace, claim.name, claim.uid, self._boot, answers, own_specs)
        )

    def find(self, uid: str) -> PreparedClaimRecord | None:
        try:
            return msgspec.json.decode(read_regular(self._path(uid)), type=PreparedClaimRecord)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            # Preparing again is always safe; only the chance to skip it is lost.
            log.warning("%s cannot be read (the claim counts as not prepared): %s", self._path(uid), error)
            return None

    def finished(self, uid: str) -> PreparedClaimRecord | None:
        """Return the record of a prepared claim, or None. A record from before a reboot counts as not prepared.

        None also applies to a claim whose preparation was begun but not completed.
        """
        entry = self.find(uid)
        return entry if entry is not None and entry.answers is not None and entry.boot == self._boot else None

    def forget(self, uid: str) -> None:
        self._path(uid).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[PreparedClaimRecord]:
        for path in sorted(self._directory.glob("*.json")):
            entry = self.find(path.stem)
            if entry is not None:
                yield entry

    def _write(self, entry: PreparedClaimRecord) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(entry.uid), msgspec.json.encode(entry))

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
