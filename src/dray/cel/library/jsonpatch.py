"""What expressions that make JSON patches need beside the patches themselves."""

from __future__ import annotations

from dray.cel.declarations import function, overload
from dray.cel.types import STRING


def _escape_key(text: str) -> str:
    """A key as it stands in a JSON pointer."""
    return text.replace("~", "~0").replace("/", "~1")


FUNCTIONS = (
    function("jsonpatch.escapeKey", overload("string_jsonpatch_escapeKey_string", (STRING,), STRING, _escape_key)),
)
