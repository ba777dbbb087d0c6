"""Compiles the constraints of a message into Python functions.

The functions are generated as source code and look at every field once. `suspicion` takes a value and the value
that it replaces (or None), and returns whether an error is possible. `checker` also takes the path and a function
that collects errors. For a message without constraints, including nested messages, both are None.
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

Checker = Callable[[Any, Any, Any, Any], None]  # (value, previous value, path, function that collects errors)
Suspicion = Callable[[Any, Any], bool]

_SHOWN = ("str", "i32", "i64", "bool")  # types whose value is in the error of an immutable field; others show null
USED = {**table.NAMES, "Path": Path, "checks": checks}


class Tag(NamedTuple):
    """One constraint: its name, and the text after the equals sign."""

    name: str
    value: str


@cache
def checker(message: str) -> Checker | None:
    """Return the function that reports the errors of a message, or None if the message has no constraints."""
    return _Compiler(message, quick=False).made() if message in _judged_messages() else None


@cache
def suspicion(message: str) -> Suspicion | None:
    """Return the function that says whether a message may have errors, or None if the message has no constraints.

    Most objects are valid, so this function saves computing paths.
    """
    return _Compiler(message, quick=True).made() if message in _judged_messages() else None


@cache
def _judged_messages() -> frozenset[str]:
    """Return the names of the messages that have constraints, directly or in nested messages."""
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
    """A field with its constraints."""

    name: str
    attribute: str
    field: schema.Field
    tags: tuple[Tag, ...]
    path: str  # Python expression of the path

    def has(self, name: str) -> bool:
        return any(tag.name == name for tag in self.tags)

    def values(self, name: str) -> tuple[str, ...]:
        return tuple(tag.value for tag in self.tags if tag.name == name)


class _Compiler:
    """Generates one function of a message; a `quick` function returns True at the first possible error."""

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
        exec(source, self._names)  # generated above from the schema only
        return self._names["judge"]

    def _is_judged(self, field: _ConstrainedField) -> bool:
        """Return whether a field contains messages that have constraints."""
        return field.field.reference in _judged_messages()

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _tell(self, call: str) -> str:
        """Return the statement that reports an error; in a quick function, `return True`."""
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
        """Generate the checks after which the rest of a field is not checked.

        Returns the indentation of the rest, as a number of levels.
        """
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
        """Generate the constraints of the field's value and of scalar elements."""
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
        """Generate the validation of the message or messages that a field contains."""
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
    """Return a function that compiles the function of a message on its first call: messages may contain themselves."""

    def first(*arguments: Any) -> Any:
        names[name] = of(message)
        return names[name](*arguments)

    return first


def parsed(tags: Iterable[str]) -> tuple[Tag, ...]:
    return tuple(Tag(*tag.partition("=")[::2]) for tag in tags)


def scalar(tag: Tag, x: str, path: str, constant: Callable[[Any], str]) -> tuple[str, str] | None:
    """Return the source of the condition that a value violates a constraint, and of the statement that reports it.

    Returns None if the constraint is not one of a single value.
    """
    if tag.name == "format":
        check = constant(FORMATS[tag.value])
        return f"not {constant(is_format(tag.value))}({x})", f"for e in {check}({x}, {path}): out(e)"
    found = table.written(tag.name, tag.value, x, path)
    return (f"not ({found[0]})", f"out({found[1]})") if found is not None else None


def empty(field: schema.Field) -> str:
    """Return the source of an expression that says whether the field `x` is absent; empty if it never is."""
    if field.type == "raw" or (field.pointer and not field.is_list and not field.is_map):
        return "x is None"
    return "" if field.type == "intstr" or field.type.startswith("ref:") else "not x"


def attribute(name: str) -> str:
    """Return the name of the struct attribute that holds a field; Python keywords get an underscore."""
    return name + "_" if keyword.iskeyword(name) else name
