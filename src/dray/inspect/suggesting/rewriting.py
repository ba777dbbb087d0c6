"""Rewriting of selectors: another name, another value, or a guard. Text in, text out.

A rewritten selector is only a guess; trying it shows whether it helps. Left out: expressions with computed names or
values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dray.api.reasons.selector_faults import Place
from dray.cel.lexer import tokenize
from dray.inspect.expressions import accesses, conjuncts
from dray.inspect.hardware import Published, alike
from dray.inspect.selectors import value_at

_LITERALS = ("STRING", "NUM_INT", "NUM_FLOAT", "NUM_UINT", "true", "false")
_VALUES = 6  # values tried for one literal


def renamed(expression: str, old: Place, new: Place) -> str:
    """Return the expression with an attribute renamed; unchanged if the name is not written literally."""
    before, domain, name = old.kind, re.escape(old.domain), re.escape(old.name)
    dotted = re.compile(rf"device\.{before}\[([\"']){domain}\1\](\.\??){name}\b")
    indexed = re.compile(rf"device\.{before}\[([\"']){domain}\1\](\[\??)([\"']){name}\3\]")
    text = dotted.sub(lambda found: f'device.{new.kind}["{new.domain}"]{found[2]}{new.name}', expression)
    return indexed.sub(lambda found: f'device.{new.kind}["{new.domain}"]{found[2]}"{new.name}"]', text)


def guarded(expression: str, place: Place) -> str:
    """Return the expression with a guard, so that devices without the attribute do not match instead of failing."""
    return f'has(device.{place.kind}["{place.domain}"].{place.name}) && ({expression})'


def revalued(expression: str, devices: Sequence[Published]) -> Iterator[tuple[str, str, str]]:
    """Yield the expression with one literal replaced by a value that devices have.

    Each item is the new expression, the old part and the new part.
    """
    for part in conjuncts(expression):
        used = accesses(part)
        if len(used) != 1:
            continue
        place = Place(*used[0][:3])
        values = [value for one in devices if (value := value_at(one, place)) is not None]
        for text in _with_values(part, place, values):
            yield expression.replace(part, text, 1), part, text


def redriven(expression: str, drivers: Sequence[str]) -> Iterator[str]:
    """Yield the expression with one string literal replaced by the name of a driver that it resembles.

    Yields nothing if no driver has a similar name.
    """
    for token in tokenize(expression)[0]:
        if token.kind == "STRING":
            old = token.text[1:-1]
            for driver in drivers:
                if driver != old and _is_slip(old, driver):
                    yield _put(expression, token.offset, token.text, f'"{driver}"')


def _is_slip(name: str, other: str) -> bool:
    """Whether two names are similar, ignoring the domain labels that both end with."""
    mine, its = name.split("."), other.split(".")
    while len(mine) > 1 and len(its) > 1 and mine[-1] == its[-1]:
        mine, its = mine[:-1], its[:-1]
    return bool(alike(".".join(mine), [".".join(its)]))


def _with_values(part: str, place: Place, values: Sequence[str]) -> Iterator[str]:
    """Yield a part of an expression with one of its literals replaced by each likely value."""
    for token in tokenize(part)[0]:
        if token.kind not in _LITERALS or token.text[1:-1] in (place.domain, place.name):
            continue
        old = token.text[1:-1] if token.kind == "STRING" else token.text
        for value in _likely(old, values):
            text = f'"{value}"' if token.kind == "STRING" else value.lower() if value in ("True", "False") else value
            yield _put(part, token.offset, token.text, text)


def _likely(old: str, values: Sequence[str]) -> list[str]:
    """Return the values that devices have, the most similar value first, then the most common ones.

    The old value is left out. At most `_VALUES` values.
    """
    common = sorted(set(values), key=lambda value: (-values.count(value), value))
    first = alike(old, common)
    ordered = [first, *common] if first else common
    return [value for value in dict.fromkeys(ordered) if value != old][:_VALUES]


def _put(text: str, offset: int, old: str, new: str) -> str:
    """Return the text with `old` at an offset replaced by `new`."""
    return text[:offset] + new + text[offset + len(old) :]
