"""Semantic versions 2.0.0, as used in device attributes and CEL.

Parsing is strict by default; `normalize` accepts incomplete forms (`v1.2`, `01.2.3`). Version ranges and
increments are not supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from dray.api.quoting import quote
from dray.api.remembered import remembered

_MAX_UINT64 = 2**64 - 1
_DIGITS = re.compile(r"[0-9]*\Z")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+\Z")

_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRERELEASE = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SPECIFICATION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?\Z"
)


class SemverError(ValueError):
    """The text is not a semantic version; the message is that of Kubernetes."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version. Build metadata is kept but ignored in comparisons, as the specification requires.

    >>> Semver.parse("1.2.3-rc.1") < Semver.parse("1.2.3") == Semver.parse("1.2.3+build.7")
    True
    >>> str(Semver.parse("v1.2", normalize=True))
    '1.2.0'
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> Semver:
        """Parse a version. Raises SemverError if the text is invalid.

        `normalize` removes a leading v and leading zeros and adds a missing minor and patch number.
        """
        return _parse(_normalize(text) if normalize else text)

    @staticmethod
    def conforms(text: str) -> bool:
        """Return whether the text follows the specification; unlike in `parse`, numbers may have any length."""
        return _SPECIFICATION.match(text) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Semver):
            return NotImplemented
        return (
            self.major == other.major
            and self.minor == other.minor
            and self.patch == other.patch
            and self.prerelease == other.prerelease
        )

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.prerelease))

    def __lt__(self, other: Semver) -> bool:
        if self.major != other.major:
            return self.major < other.major
        if self.minor != other.minor:
            return self.minor < other.minor
        if self.patch != other.patch:
            return self.patch < other.patch
        if not (self.prerelease and other.prerelease):
            return bool(self.prerelease) and not other.prerelease  # a release is greater than its prereleases
        return _ranked(self.prerelease) < _ranked(other.prerelease)

    def compare(self, other: Semver) -> int:
        """Return -1 if this version is less than `other`, 0 if they are equal, 1 if it is greater."""
        return 0 if self == other else -1 if self < other else 1

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(map(str, self.prerelease))
        return text + ("+" + ".".join(self.build) if self.build else "")


def _ranked(prerelease: tuple[int | str, ...]) -> list[tuple[int, int, str]]:
    """Return the parts in a form that Python sorts correctly: numbers before words."""
    return [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in prerelease]


def _normalize(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped[:1] in tuple("123456789") else "0" + stripped
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise SemverError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


@remembered(1024)
def _parse(text: str) -> Semver:
    """Parse a version. Cached, because the same versions recur in many devices.

    Raises SemverError if the text is invalid.
    """
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    return Semver(
        major,
        minor,
        _number(patch, "patch"),
        tuple(map(_prerelease_part, prerelease.split("."))) if dash else (),
        tuple(map(_build_part, build.split("."))) if plus else (),
    )


def _number(text: str, name: str) -> int:
    """Parse the major, minor or patch number; `name` is for the message. Raises SemverError if it is invalid."""
    if not _DIGITS.match(text):
        raise SemverError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    """Parse an unsigned 64-bit number. Raises SemverError if the text is empty or the number too large."""
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAX_UINT64:
        raise SemverError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _prerelease_part(text: str) -> int | str:
    """Return a part of the prerelease, as a number if it has only digits. Raises SemverError if it is invalid."""
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.match(text):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _unsigned(text)
    if not _IDENTIFIER.match(text):
        raise SemverError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build_part(text: str) -> str:
    """Return a part of the build metadata unchanged. Raises SemverError if it is invalid."""
    if not text:
        raise SemverError("Build meta data is empty")
    if not _IDENTIFIER.match(text):
        raise SemverError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text
