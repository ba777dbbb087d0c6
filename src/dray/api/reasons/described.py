"""What the docstrings of causes and suggestions say: a summary, then what each field means.

The page of causes and the JSON schema are made of it. Left out: the page (`tools/cause_pages.py`), the schema
(`dray.inspect.schema`).
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion

_FIELD = re.compile(r"(\w+): (.+)")


class Description(NamedTuple):
    """What a struct stands for, and what each of its fields means."""

    summary: str
    fields: dict[str, str]


def description_of(kind: type[Cause] | type[Suggestion]) -> Description:
    """The docstring of a cause or a suggestion, taken apart."""
    summary, _, rest = inspect.getdoc(kind).partition("\n\n")  # type: ignore[union-attr]  # a test finds those without
    lines = [found for line in rest.splitlines() if (found := _FIELD.fullmatch(line))]
    return Description(" ".join(summary.split()), {found[1]: found[2] for found in lines})
