"""JSON Schema of explanations, generated from the types, including the text fields that only the JSON output has."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from dray.api.reasons.causes import CAUSES, SUGGESTIONS
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.described import description_of
from dray.api.reasons.suggestions import Suggestion
from dray.inspect.explanation import WaitExplanation

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string", "description": "the same in words; for people, since it may change in any version"}


def explanation_schema() -> dict[str, Any]:
    """Return the JSON Schema of `dray explain -o json` output."""
    [root], parts = msgspec.json.schema_components([WaitExplanation], ref_template="#/$defs/{name}")
    for part in parts.values():
        if "description" in part:
            part["description"] = cleandoc(part["description"])
    kinds: list[type[Cause] | type[Suggestion]] = [*CAUSES.values(), *SUGGESTIONS.values()]
    for kind in kinds:
        described, part = description_of(kind), parts[kind.__name__]
        part["description"] = described.summary
        for name, meaning in described.fields.items():
            part["properties"][name]["description"] = meaning
        part["properties"]["text"] = _TEXT
    return {"$schema": _DIALECT, **root, "$defs": parts}
