"""Field paths, as they stand in the answer to a bad request: `spec.devices.requests[0].exactly`."""

from __future__ import annotations

import msgspec


class Path(msgspec.Struct, gc=False, eq=False):
    """A place in an object. Written only when something is wrong there, so building one costs next to nothing.

    >>> str(Path("spec") / "devices" / "requests" / 0), str(Path("metadata") / "labels" % "a/b")
    ('spec.devices.requests[0]', 'metadata.labels[a/b]')
    """

    part: str | int
    parent: Path | None = None

    def __truediv__(self, part: str | int) -> Path:
        """A field, or with a number an element of a list."""
        return Path(part, self)

    def __mod__(self, key: str) -> Path:
        """An entry of a map."""
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        before = str(self.parent) if self.parent is not None else ""
        if isinstance(self.part, int):
            return f"{before}[{self.part}]"
        return f"{before}.{self.part}" if before and not self.part.startswith("[") else before + self.part


METADATA = Path("metadata")
SPEC = Path("spec")
STATUS = Path("status")
