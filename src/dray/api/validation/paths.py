"""Field paths, as they stand in the answer to a bad request: `spec.devices.requests[0].exactly`."""

from __future__ import annotations


class Path:
    """A place in an object. Written only when something is wrong there, so building one costs next to nothing.

    >>> str(Path("spec") / "devices" / "requests" / 0), str(Path("metadata") / "labels" % "a/b")
    ('spec.devices.requests[0]', 'metadata.labels[a/b]')
    """

    __slots__ = ("_parent", "_part")

    def __init__(self, part: str | int, parent: Path | None = None) -> None:
        self._part = part
        self._parent = parent

    def __truediv__(self, part: str | int) -> Path:
        """A field, or with a number an element of a list."""
        return Path(part, self)

    def __mod__(self, key: str) -> Path:
        """An entry of a map."""
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        before = str(self._parent) if self._parent is not None else ""
        if isinstance(self._part, int):
            return f"{before}[{self._part}]"
        return f"{before}.{self._part}" if before and not self._part.startswith("[") else before + self._part


METADATA = Path("metadata")
SPEC = Path("spec")
STATUS = Path("status")
