"""Parses the docstrings of causes and suggestions: a summary, then the meaning of each field.

The page of causes (`tools/cause_pages.py`) and the JSON schema (`dray.inspect.schema`) are generated from the result.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion

_FIELD = re.compile(r"(\w+): (.+)")


class Description(NamedTuple):
    """Meaning of a struct and of each of its fields."""

    summary: str
    fields: dict[str, str]


def description_of(kind: type[Cause] | type[Suggestion]) -> Description:
    """Parse the docstring of a cause or suggestion. Returns its summary and the meanings of its fields."""
    summary, _, rest = inspect.getdoc(kind).partition("\n\n")  # type: ignore[union-attr]  # a test finds those without
    lines = [found for line in rest.splitlines() if (found := _FIELD.fullmatch(line))]
    return Description(" ".join(summary.split()), {found[1]: found[2] for found in lines})
