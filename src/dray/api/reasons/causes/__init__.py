"""Causes: why an object waits, or that it does not wait. Each cause is a struct with its code, text and suggestions.

A new cause needs only a module in this package; the registry imports all modules. Closely related causes share a
module. `dray.inspect` determines the causes of an object.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Any

from dray.api.reasons import suggestions
from dray.api.reasons.causes import base
from dray.api.reasons.causes.base import Cause as Cause
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import TEXTS

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def _kinds(of: type[Any]) -> Iterator[type[Any]]:
    """Yield all subclasses that have a text of their own, in the order in which they were defined."""
    for one in of.__subclasses__():
        if one.TEXT:
            yield one
        yield from _kinds(one)


CAUSES: dict[str, type[Cause]] = {one.__struct_config__.tag: one for one in _kinds(Cause)}
SUGGESTIONS: dict[str, type[Suggestion]] = {one.__struct_config__.tag: one for one in _kinds(Suggestion)}


def texts_of(kind: type[Cause] | type[Suggestion]) -> dict[str, str]:
    """Return the text templates of a cause or suggestion, by their keys in `TEXTS`."""
    tag = str(kind.__struct_config__.tag)
    return {tag: kind.TEXT} | {f"{tag}.{name}": text for name, text in kind.PHRASES.items()}


for _cause in CAUSES.values():
    TEXTS.update(texts_of(_cause))
for _suggestion in SUGGESTIONS.values():
    TEXTS.update(texts_of(_suggestion))

base.AnyCause = reduce(or_, CAUSES.values())
suggestions.AnySuggestion = reduce(or_, SUGGESTIONS.values())
