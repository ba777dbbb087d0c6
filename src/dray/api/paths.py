"""Field paths as in error messages: `spec.devices.requests[0].exactly`."""

from __future__ import annotations

import msgspec


class Path(msgspec.Struct, gc=False, eq=False):
    """Path of a field in an object. Formatted only when an error is reported, so creating one is cheap.

    >>> str(Path("spec") / "devices" / "requests" / 0), str(Path("metadata") / "labels" % "a/b")
    ('spec.devices.requests[0]', 'metadata.labels[a/b]')
    """

    part: str | int
    parent: Path | None = None

    def __truediv__(self, part: str | int) -> Path:
        """Return the path of a field, or, for a number, of a list element."""
        return Path(part, self)

    def __mod__(self, key: str) -> Path:
        """Return the path of a map entry."""
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        before = str(self.parent) if self.parent is not None else ""
        if isinstance(self.part, int):
            return f"{before}[{self.part}]"
        return f"{before}.{self.part}" if before and not self.part.startswith("[") else before + self.part


METADATA = Path("metadata")
SPEC = Path("spec")
STATUS = Path("status")
