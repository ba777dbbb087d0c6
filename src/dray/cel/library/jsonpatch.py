"""Functions for expressions that construct JSON Patch operations."""

from __future__ import annotations

from dray.cel.declarations import function, overload
from dray.cel.types import STRING


def _escape_key(text: str) -> str:
    """Escape a key for use in a JSON Pointer."""
    return text.replace("~", "~0").replace("/", "~1")


FUNCTIONS = (
    function("jsonpatch.escapeKey", overload("string_jsonpatch_escapeKey_string", (STRING,), STRING, _escape_key)),
)
