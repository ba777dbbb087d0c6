"""Objects made again, field by field: how a recording leaves things out and replaces names. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api.wire import Wire


def rebuilt(value: Any, change: Callable[[type[Wire], str, Any], Any]) -> Any:
    """A value made again from the leaves up; `change` says what each field of each struct becomes."""
    if isinstance(value, Wire):
        type_ = type(value)
        fields = {name: change(type_, name, rebuilt(getattr(value, name), change)) for name in type_.__struct_fields__}
        return type_(**{name: found for name, found in fields.items() if found is not msgspec.UNSET})
    if isinstance(value, tuple):
        return tuple([rebuilt(one, change) for one in value])
    if isinstance(value, dict):
        return {key: rebuilt(one, change) for key, one in value.items()}
    return value
