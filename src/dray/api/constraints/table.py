"""Table of constraints of single values: the condition that must hold, and the error if it does not.

Built-in and custom resources share the table. A row has two expressions of `x` (the value), `n` (the bound or
text of the constraint) and `p` (the path). The messages of built-in resources are fixed, so their expressions are
inserted into generated functions (`written`). Schemas of custom resources come from users, who may have thousands
of them, and compiling each would delay other requests; their bounds are passed to precompiled functions
(`constraint`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from dray.api.custom.formats import is_format as is_text_format
from dray.api.custom.structure import pattern
from dray.api.errors import FieldError, invalid, required, shown, too_long, too_many, unsupported

KeepsBound = Callable[[Any, Any], bool]  # (value, bound) → whether the constraint holds
BoundError = Callable[[Any, Any, Any], FieldError]  # (value, bound, path) → error

_ROWS = {
    # With the messages of built-in resources
    "alone": ("len(x) == 1 or '*' not in x", "invalid(p, x, n)"),
    "among": ("x in n", "invalid(p, x, f\"must be one of {','.join(n)}\")"),
    "bytes": ("len(x.encode()) <= n[0]", "invalid(p, x, n[1])"),
    "enum": ("x in n", "unsupported(p, x, n)"),
    "filled": ("x", "invalid(p, x, n)"),
    "given": ("x", "required(p)"),
    "least": ("x >= n[0]", "invalid(p, x, n[1])"),
    "limit": ("len(x) <= n", "too_many(p, len(x), n)"),
    "maxBytes": ("len(x.encode()) <= n", "too_long(p, n)"),
    "maxLength": ("len(x) <= n", "too_long(p, n, 'characters')"),
    "maximum": ("x <= n", "invalid(p, x, f'must be less than or equal to {n}')"),
    "minimum": ("x >= n", "invalid(p, x, f'must be greater than or equal to {n}')"),
    "most": ("x <= n[0]", "invalid(p, x, n[1])"),
    "range": ("n[0] <= x <= n[1]", "invalid(p, x, n[2])"),
    "size": ("len(x) <= n[0]", "invalid(p, x, n[1])"),
    # With the messages of OpenAPI schemas
    "longest": ("len(x) <= n", "too_long(p, n)"),
    "shortest": ("len(x) >= n", "in_body(p, x, f'should be at least {n} chars long')"),
    "pattern": ("pattern(n).search(x)", "in_body(p, x, f\"should match '{n}'\")"),
    "textFormat": ("is_text_format(n, x)", "wrong_type(p, n, x)"),
    "multipleOf": ("float(x / n).is_integer()", "in_body(p, x, f'should be a multiple of {plain(n)}')"),
    "below": ("x < n", "in_body(p, x, f'should be less than {plain(n)}')"),
    "notAbove": ("x <= n", "in_body(p, x, f'should be less than or equal to {plain(n)}')"),
    "above": ("x > n", "in_body(p, x, f'should be greater than {plain(n)}')"),
    "notBelow": ("x >= n", "in_body(p, x, f'should be greater than or equal to {plain(n)}')"),
    "int32": ("-(2**31) <= x < 2**31", "in_body(p, x, 'should be an int32')"),
    "fewestItems": ("len(x) >= n", "in_body(p, x, f'should have at least {n} items')"),
    "fewestProperties": ("len(x) >= n", "in_body(p, x, f'should have at least {n} properties')"),
    "allDifferent": ("len({*map(encoded, x)}) == len(x)", 'in_body(p, x, "shouldn\'t contain duplicates")'),
}
_WORDED = ("bytes", "least", "most", "size")  # constraints of the form number:text
_VARIABLE = re.compile(r"\b[xnp]\b")


def in_body(path: str, value: Any, text: str) -> FieldError:
    """Return an error about a value in a custom object. As in Kubernetes, the message repeats the path."""
    return invalid(path, value, f"{path} in body {text}")


def wrong_type(path: str, wanted: str, actual: str) -> FieldError:
    """Return an error about a value in a custom object that does not have the type or format of its schema."""
    text = f"{path} in body must be of type {wanted}: {shown(actual)}"
    return FieldError("FieldValueTypeInvalid", path, f"Invalid value: {shown(actual)}: {text}")


def plain(number: float) -> str:
    """Return a number as text, without a fraction if it is whole."""
    return str(int(number)) if float(number).is_integer() else str(number)


def encoded(value: Any) -> bytes:
    """Return a value as JSON with sorted keys, for comparisons."""
    return msgspec.json.encode(value, order="sorted")


NAMES: dict[str, Any] = {  # names that the expressions use
    "encoded": encoded,
    "in_body": in_body,
    "invalid": invalid,
    "is_text_format": is_text_format,
    "pattern": pattern,
    "plain": plain,
    "required": required,
    "too_long": too_long,
    "too_many": too_many,
    "unsupported": unsupported,
    "wrong_type": wrong_type,
}


def written(name: str, value: str, x: str, path: str) -> tuple[str, str] | None:
    """Return the source of the condition that a value satisfies a constraint, and of the error if it does not.

    Returns None if the table has no row of this name. `x` and `path` are the source of the value and of its path.
    """
    if name not in _ROWS:
        return None
    variables = {"x": x, "n": repr(_bound(name, value)), "p": path}
    holds, error = (_VARIABLE.sub(lambda found: variables[found[0]], text) for text in _ROWS[name])
    return holds, error


@cache
def constraint(name: str) -> tuple[KeepsBound, BoundError]:
    """Return two functions for a row: whether a value satisfies a bound, and the error if it does not."""
    holds, error = _ROWS[name]  # trusted: the expressions are in this module
    return eval(f"lambda x, n: {holds}", NAMES), eval(f"lambda x, n, p: {error}", NAMES)


def _bound(name: str, value: str) -> Any:
    """Return the bound or text of a constraint in the form that the expressions need."""
    if name in ("among", "enum"):
        return tuple(value.split("|"))
    if name == "range":
        bounds, _, text = value.partition(":")
        low, high = map(int, bounds.split(","))
        return low, high, text or f"must be between {low} and {high}, inclusive"
    if name == "alone":
        return f"if '*' is present, must not specify other {value}"
    if name in _WORDED:
        number, _, text = value.partition(":")
        return int(number), text
    return int(value) if value.lstrip("-").isdigit() else value
