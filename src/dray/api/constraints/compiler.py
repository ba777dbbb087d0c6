"""Compiles the constraints of a message into Python functions.

They are written as source and made by `exec`, and look at every field once. One (`suspicion`) takes a value and the value
that it replaces (or None), and tells whether anything may be wrong. The other (`checker`) also takes the path and what
takes the errors. A message without constraints, itself and below, has no functions.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from dray.api import schema
from dray.api.constraints import checks, table
from dray.api.constraints.formats import FORMATS, is_format
from dray.api.paths import Path

Checker = Callable[[Any, Any, Any, Any], None]  # of a value, the one before it, its path, and what takes errors
Suspicion = Callable[[Any, Any], bool]

_SHOWN = ("str", "i32", "i64", "bool")  # what an immutable field's error shows; of the rest it shows null
USED = {**table.NAMES, "Path": Path, "checks": checks}


class Tag(NamedTuple):
    """One constraint: its name, and what stands behind the equals sign."""

    name: str
    value: str


@cache
def checker(message: str) -> Checker | None:
    """The function that tells what is wrong with a message, or None if nothing is to be judged."""
    return _Compiler(message, quick=False).made() if message in _judged_messages() else None


@cache
def suspicion(message: str) -> Suspicion | None:
    """The function that tells whether anything may be wrong with a message: most objects are valid, and need no paths."""
    return _Compiler(message, quick=True).made() if message in _judged_messages() else None


@cache
def _judged_messages() -> frozenset[str]:
    """The messages that have constraints, themselves or below."""
    found = {name for name, message in schema.table().items() if any(f.constraints for f in message.fields.values())}
    users: dict[str, set[str]] = {}
    for name, message in schema.table().items():
        for field in message.fields.values():
            users.setdefault(field.reference, set()).add(name)
    pending = list(found)
    while pending:
        new = users.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return frozenset(found)


class _ConstrainedField(NamedTuple):
    """A field and the constraints that it has."""

    name: str
    attribute: str
    field: schema.Field
    tags: tuple[Tag, ...]
    path: str  # an expression

    def has(self, name: str) -> bool:
        return any(tag.name == name for tag in self.tags)

    def values(self, name: str) -> tuple[str, ...]:
        return tuple(tag.value for tag in self.tags if tag.name == name)


class _Compiler:
    """Writes a function of one message; a `quick` one returns True at the first thing that may be wrong."""

    def __init__(self, message: str, *, quick: bool) -> None:
        self._message = message
        self._quick = quick
        self._names: dict[str, Any] = dict(USED)
        self._lines = ["def judge(v, o):" if quick else "def judge(v, o, p, out):"]

    def made(self) -> Any:
        message = schema.message(self._message)
        fields = []
        for name, column in sorted(message.fields.items(), key=lambda item: item[1].number):
            path = f"Path({name!r})" if message.kinds else f"(p / {name!r})"
            fields.append(_ConstrainedField(name, attribute(name), column, parsed(column.constraints), path))
        self._union([field for field in fields if field.has("unionMember")])
        for field in fields:
            if field.tags or self._is_judged(field):
                self._judge(field)
        self._line(1, "return False")
        source = compile("\n".join(self._lines), f"<constraints of {self._message}>", "exec")
        exec(source, self._names)  # written above, from the schema alone
        return self._names["judge"]

    def _is_judged(self, field: _ConstrainedField) -> bool:
        """Whether a field holds messages that are judged, too."""
        return field.field.reference in _judged_messages()

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _tell(self, call: str) -> str:
        """A statement that tells an error, or in a quick function that there may be one."""
        return "return True" if self._quick else call

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _union(self, members: list[_ConstrainedField]) -> None:
        if members:
            names = self._constant(tuple(member.name for member in members))
            values = self._constant(attrgetter(*(member.attribute for member in members)))
            self._line(1, f"x = {values}(v)")
            wrong = f"x.count(None) + x.count(()) != {len(members) - 1}"
            self._line(1, f"if {wrong} and not checks.same_union(x, o, {values}):")
            self._line(2, self._tell(f"checks.union(x, {names}, p, out)"))

    def _judge(self, field: _ConstrainedField) -> None:
        self._line(1, f"x = v.{field.attribute}")
        self._line(1, f"if o is None or x != o.{field.attribute}:")
        for rule in field.values("update"):
            if rule.endswith("Item"):
                arguments = f"x or (), o.{field.attribute} or (), {rule!r}, {field.path}, out"
                self._line(2, f"if o is not None: {self._tell(f'checks.kept_items({arguments})')}")
        depth = self._ends(2, field)
        start = len(self._lines)
        self._value(depth, field)
        if self._is_judged(field):
            self._below(depth, field)
        if len(self._lines) == start:
            self._line(depth, "pass")

    def _ends(self, depth: int, field: _ConstrainedField) -> int:
        """Write what ends the judgement of a field; returns how deep the rest stands."""
        ends: list[tuple[str, str]] = []
        if field.has("immutable"):
            shown = "x" if field.field.type in _SHOWN else "None"
            ends.append(("o is not None", f"out(invalid({field.path}, {shown}, {checks.IMMUTABLE!r}))"))
        for rule in field.values("update"):
            if rule in checks.SET_ONCE:
                wrong, text = checks.SET_ONCE[rule]
                condition = f"o is not None and {wrong.format(old=f'checks.is_set(o.{field.attribute})')}"
                ends.append((condition, f"out(invalid({field.path}, None, {text!r}))"))
        if missing := empty(field.field):
            ends.append((missing, f"out(required({field.path}))" if field.has("required") else "pass"))
        limits = field.values("maxItems")
        ends += [(f"len(x) > {limit}", f"out(too_many({field.path}, len(x), {limit}))") for limit in limits]
        for number, (condition, then) in enumerate(ends):
            self._line(depth, f"{'elif' if number else 'if'} {condition}:")
            self._line(depth + 1, then if then == "pass" else self._tell(then))
        if ends:
            self._line(depth, "else:")
        return depth + bool(ends)

    def _value(self, depth: int, field: _ConstrainedField) -> None:
        """Write the constraints of the value itself, and of plain elements."""
        keys = tuple(map(attribute, field.values("listMapKey")))
        if keys or field.has("unique") or Tag("listType", "set") in field.tags:
            names = self._constant(keys)
            self._line(depth, f"if len(x) > 1 and checks.repeats(x, {names}):")
            self._line(depth + 1, self._tell(f"checks.unique(x, {names}, {field.path}, out)"))
        for tag in field.tags:
            if tag.name == "eachVal":
                self._line(depth, "for i, y in enumerate(x):")
                self._scalar(depth + 1, parsed([tag.value])[0], "y", f"{field.path} / i")
            elif tag.name == "eachKey":
                self._line(depth, "for y in x:")
                self._scalar(depth + 1, parsed([tag.value])[0], "y", field.path)
            else:
                self._scalar(depth, tag, "x", field.path)

    def _scalar(self, depth: int, tag: Tag, x: str, path: str) -> None:
        if found := scalar(tag, x, path, self._constant):
            self._line(depth, f"if {found[0]}:")
            self._line(depth + 1, self._tell(found[1]))

    def _below(self, depth: int, field: _ConstrainedField) -> None:
        """Write the judgement of the message, or messages, that a field holds."""
        call = self._constant(None)
        of = suspicion if self._quick else checker
        self._names[call] = _deferred(self._names, call, field.field.reference, of)
        old = f"o.{field.attribute}"
        if not field.field.is_list and not field.field.is_map:
            self._called(depth, call, "x", f"{old} if o is not None else None", field.path)
            return
        keys = self._constant(tuple(map(attribute, field.values("listMapKey"))))
        plain = "" if field.field.is_map else f"checks.matched({old}, {keys})"
        self._line(depth, f"w = {plain or old} if o is not None else None")
        self._line(depth, f"for i, y in {'x.items()' if field.field.is_map else 'enumerate(x)'}:")
        before = "w.get(i)" if field.field.is_map else f"checks.before(w, y, {keys})"
        self._line(depth + 1, f"b = {before} if w else None")
        self._line(depth + 1, "if b is None or y != b:")
        self._called(depth + 2, call, "y", "b", f"{field.path} {'%' if field.field.is_map else '/'} i")

    def _called(self, depth: int, call: str, value: str, old: str, path: str) -> None:
        if self._quick:
            self._line(depth, f"if {call}({value}, {old}): return True")
        else:
            self._line(depth, f"{call}({value}, {old}, {path}, out)")


def _deferred(names: dict[str, Any], name: str, message: str, of: Callable[[str], Any]) -> Any:
    """The function of a message, which is compiled when it is first called: messages may contain themselves."""

    def first(*arguments: Any) -> Any:
        names[name] = of(message)
        return names[name](*arguments)

    return first


def parsed(tags: Iterable[str]) -> tuple[Tag, ...]:
    return tuple(Tag(*tag.partition("=")[::2]) for tag in tags)


def scalar(tag: Tag, x: str, path: str, constant: Callable[[Any], str]) -> tuple[str, str] | None:
    """The condition under which one value breaks one constraint, and the statement that tells so; None for others."""
    if tag.name == "format":
        check = constant(FORMATS[tag.value])
        return f"not {constant(is_format(tag.value))}({x})", f"for e in {check}({x}, {path}): out(e)"
    found = table.written(tag.name, tag.value, x, path)
    return (f"not ({found[0]})", f"out({found[1]})") if found is not None else None


def empty(field: schema.Field) -> str:
    """An expression that tells whether the field `x` was left out; empty if it is always there."""
    if field.type == "raw" or (field.pointer and not field.is_list and not field.is_map):
        return "x is None"
    return "" if field.type == "intstr" or field.type.startswith("ref:") else "not x"


def attribute(name: str) -> str:
    """The attribute of a struct that holds a field."""
    return name + "_" if keyword.iskeyword(name) else name
