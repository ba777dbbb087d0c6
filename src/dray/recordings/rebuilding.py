"""Rebuilding of objects field by field, used to drop fields and to replace names. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api.wire import Wire


def rebuilt(value: Any, change: Callable[[type[Wire], str, Any], Any]) -> Any:
    """Return a copy of a value, rebuilt from the leaves up.

    `change` returns the new value of each struct field; UNSET drops it.
    """
    if isinstance(value, Wire):
        type_ = type(value)
        fields = {name: change(type_, name, rebuilt(getattr(value, name), change)) for name in type_.__struct_fields__}
        return type_(**{name: found for name, found in fields.items() if found is not msgspec.UNSET})
    if isinstance(value, tuple):
        return tuple([rebuilt(one, change) for one in value])
    if isinstance(value, dict):
        return {key: rebuilt(one, change) for key, one in value.items()}
    return value
