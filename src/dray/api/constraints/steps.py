"""Compiles the steps of a message into a Python function.

Steps are the checks that Kubernetes does in code, in the same order. Each step names a field (or nothing, for the
message itself) and its constraints. The function performs every step once, reports the errors, and computes a
path only for an error. The steps of nested messages are performed at the end of the field's step, or at the tag
`each`. Checks that Kubernetes repeats on every update are repeated here, unlike the constraints of the schema
(`compiler`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from dray.api import schema
from dray.api.constraints import checks
from dray.api.constraints.compiler import USED, Checker, Tag, attribute, empty, parsed, scalar
from dray.api.errors import duplicate, forbidden
from dray.api.paths import Path
from dray.api.written import as_go

# Where functions are: those of one kind, those that kinds share, and those that more than validation uses.
_PACKAGES = ("dray.api.kinds", "dray.api.validation", "dray.api")
_NUMERIC = ("enum", "least", "maximum", "minimum", "range")  # also checked for empty values, which may violate them
_OF_ELEMENTS = ("anyVal", "distinct", "each", "eachKey", "eachVal")
_USED = {**USED, "as_go": as_go, "duplicate": duplicate, "forbidden": forbidden}
_FLAT = (
    "changed",
    "fixed",
    "flat",
    "forbidden",
    "immutable",
    "kept",
)  # steps that check the field itself but not its contents
_SHOWN = {"": "{x}", "go": "as_go({x})", "null": "None"}


class ConstraintStep(NamedTuple):
    """One step: a field (None for the message itself) and its constraints."""

    name: str
    field: schema.Field | None
    tags: tuple[Tag, ...]

    def has(self, *names: str) -> bool:
        return any(tag.name in names for tag in self.tags)

    def value(self, name: str) -> str:
        return next((tag.value for tag in self.tags if tag.name == name), "")


@cache
def function(name: str) -> Callable[..., Any]:
    """Return the validation function `module.function`; for `module.function:word`, with `word` as first argument.

    Raises StopIteration or AttributeError if the function does not exist.
    """
    name, _, word = name.partition(":")
    module, _, attribute_ = name.rpartition(".")
    home = next(package for package in _PACKAGES if find_spec(f"{package}.{module}") is not None)
    found: Callable[..., Any] = getattr(import_module(f"{home}.{module}"), attribute_)
    return partial(found, word) if word else found


@cache
def steps_of(message: str, of_status: bool = False) -> Checker | None:
    """Return the function that performs the steps of a message, or None if the message has no steps.

    For a kind, `of_status` selects the steps of its status, which are performed when the status is written; all
    others are performed otherwise.
    """
    found = schema.message(message)
    steps = [step for step in found.steps if not found.kinds or (step[0] == "status") is of_status]
    return _StepCompiler(message, steps).made() if steps else None


class _StepCompiler:
    def __init__(self, message: str, steps: Sequence[Sequence[str]]) -> None:
        self._message = message
        self._steps = steps
        self._names: dict[str, Any] = dict(_USED)
        self._lines = ["def judge(v, o, p, out):"]

    def made(self) -> Checker:
        message = schema.message(self._message)
        for name, *tags in self._steps:
            step = ConstraintStep(name, message.fields[name] if name else None, parsed(tags))
            place = step.value("as") or name
            path = f"(p / {place!r})" if name else "p"
            if message.kinds:
                path = f"Path({place!r})"
            self._take(step, path)
        source = compile("\n".join(self._lines), f"<steps of {self._message}>", "exec")
        exec(source, self._names)  # written above, from the schema alone
        judge: Checker = self._names["judge"]
        return judge

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _take(self, step: ConstraintStep, path: str) -> None:
        old = f"o.{attribute(step.name)}" if step.name else "o"
        self._line(1, f"x = v.{attribute(step.name)}" if step.name else "x = v")
        depth = self._conditions(1, step)
        self._updates(depth, step, old, path)
        depth = self._presence(depth, step, path)
        start, looped = len(self._lines), step.has(*_FLAT)
        for tag in step.tags:
            if tag.name == "maxItems":
                self._line(depth, f"if len(x) > {tag.value}:")
                self._line(depth + 1, f"out(too_many({path}, len(x), {tag.value}))")
                if step.has("stop"):
                    self._line(depth + 1, "return")
                self._line(depth, "else:")
                depth += 1
                start = len(self._lines)
            elif tag.name == "below":
                self._below(depth, step, old, path)
                looped = True
            elif tag.name in _OF_ELEMENTS:
                if not looped:
                    self._elements(depth, step, path)
                looped = True
            else:
                self._constraint(depth, step, tag, path)
        if not looped:
            self._below(depth, step, old, path)
        if len(self._lines) == start:
            self._line(depth, "pass")

    def _conditions(self, depth: int, step: ConstraintStep) -> int:
        """Generate the conditions under which a step is performed.

        Returns the indentation of the rest, as a number of levels.
        """
        if step.has("new"):
            self._line(depth, "if o is None:")
            depth += 1
        for name in filter(None, [step.value("with")]):
            self._line(depth, f"if {' or '.join(map(self._is_given, name.split('|')))}:")
            depth += 1
        for tag in step.tags:
            if tag.name in ("when", "unless"):
                field, _, values = tag.value.partition(":")
                self._line(
                    depth,
                    f"if v.{attribute(field)} {'' if tag.name == 'when' else 'not '}in {(*values.split('|'),)!r}:",
                )
                depth += 1
        return depth

    def _is_given(self, name: str) -> str:
        """Return the source of an expression that says whether a field of the message is set."""
        field = schema.message(self._message).fields[name]
        return f"v.{attribute(name)}{' is not None' if field.pointer else ''}"

    def _updates(self, depth: int, step: ConstraintStep, old: str, path: str) -> None:
        """Generate the checks that only an update can violate."""
        for tag in step.tags:
            if tag.name == "immutable":
                shown = _SHOWN[tag.value].format(x="x")
                self._line(depth, f"if o is not None and x != {old}:")
                self._line(depth + 1, f"out(invalid({path}, {shown}, {checks.IMMUTABLE!r}))")
            elif tag.name == "kept":
                self._line(depth, f"if o is not None and x != {old}: out(forbidden({path}, {tag.value!r}))")
            elif tag.name == "fixed":
                self._line(depth, f"if o is not None and {old} and x != {old}: out(forbidden({path}, {tag.value!r}))")
            elif tag.name == "changed":
                self._line(depth, f"if o is not None and x != {old}:")
                self._line(depth + 1, f"for e in {self._constant(function(tag.value))}(x, {old}, {path}): out(e)")

    def _presence(self, depth: int, step: ConstraintStep, path: str) -> int:
        """Generate the checks of an absent field. Returns the indentation of the rest, as a number of levels."""
        if step.field is None:
            return depth
        missing = "not x" if step.has("some") else empty(step.field)
        numeric = step.has(*_NUMERIC) or Tag("format", "port") in step.tags
        if step.has("forbidden"):
            self._line(
                depth,
                f"if {'not ' if missing == 'x is None' else ''}(x{' is None' if missing == 'x is None' else ''}):",
            )
            self._line(depth + 1, f"out(forbidden({path}, {step.value('forbidden')!r}))")
            return depth + 1
        if (
            not missing
            or step.has("always")
            or (numeric and not step.field.pointer and not step.has("required", "some"))
        ):
            return depth
        if step.has("required"):
            details = f", {step.value('required')!r}" if step.value("required") else ""
            self._line(depth, f"if {missing}:")
            self._line(depth + 1, f"out(required({path}{details}))")
            if step.has("stop"):
                self._line(depth + 1, "return")
            self._line(depth, "else:")
        else:
            self._line(depth, f"if not ({missing}):")
        return depth + 1

    def _constraint(self, depth: int, step: ConstraintStep, tag: Tag, path: str) -> None:
        if tag.name == "rule":
            self._line(depth, f"for e in {self._constant(function(tag.value))}(x, {path}): out(e)")
        elif tag.name == "ask":
            old = f"o.{attribute(step.name)} if o is not None else None" if step.name else "o"
            self._line(depth, f"for e in {self._constant(function(tag.value))}(x, {old}, {path}, out.context): out(e)")
        elif tag.name == "wrong":
            self._line(depth, f"out(invalid({path}, as_go(x), {tag.value!r}))")
        elif tag.name == "unsupported":
            self._line(depth, f"out(unsupported({path}, as_go(x), {(*tag.value.split('|'),)!r}))")
        elif tag.name == "atMost":
            other, _, text = tag.value.partition(":")
            self._line(depth, f"if x > v.{attribute(other)}: out(invalid({path}, x, {text!r}))")
        elif tag.name == "unique":
            names = self._constant(tuple(map(attribute, filter(None, tag.value.split(",")))))
            self._line(depth, f"if len(x) > 1 and checks.repeats(x, {names}): checks.unique(x, {names}, {path}, out)")
        elif tag.name == "anyOf":
            names, _, text = tag.value.partition(":")
            missing = " and ".join(f"not checks.is_set(x.{attribute(name)})" for name in names.split(","))
            self._line(depth, f"if {missing}: out(required({path}, {text!r}))")
        elif self._scalar(depth, tag, "x", path) and step.has("stop"):
            self._line(depth + 1, "return")

    def _scalar(self, depth: int, tag: Tag, x: str, path: str) -> bool:
        """Generate a constraint of a single value.

        Returns False, and generates nothing, if the constraint is of another type.
        """
        found = scalar(tag, x, path, self._constant)
        if found is not None:
            self._line(depth, f"if {found[0]}:")
            self._line(depth + 1, found[1])
        return found is not None

    def _elements(self, depth: int, step: ConstraintStep, path: str) -> None:
        """Generate the loop over the elements of a list or the entries of a map."""
        assert step.field is not None
        if step.has("distinct"):
            self._line(depth, "s = set()")
        self._line(depth, f"for i, y in {'x.items()' if step.field.is_map else 'enumerate(x)'}:")
        here = f"{path} {'%' if step.field.is_map else '/'} i"
        start = len(self._lines)
        for tag in step.tags:
            if tag.name in ("eachVal", "eachKey", "anyVal"):
                value, place = "i" if tag.name == "eachKey" else "y", path if tag.name == "anyVal" else here
                self._scalar(depth + 1, parsed([tag.value])[0], value, place)
            elif tag.name == "distinct":
                self._distinct(depth + 1, tag.value, here)
            elif tag.name == "each" and tag.value:
                self._line(depth + 1, f"for e in {self._constant(function(tag.value))}(y, {here}): out(e)")
            elif tag.name == "each":
                self._called(depth + 1, step, "y", "None", here)
        if len(self._lines) == start:
            self._line(depth + 1, "pass")

    def _distinct(self, depth: int, name: str, here: str) -> None:
        """Generate the check that no two elements are equal, or have the same value of the field `name`.

        With a question mark, elements without this value may repeat; with an exclamation mark, a duplicate is not
        checked further.
        """
        only_set, ends, name = name.endswith("?"), name.endswith("!"), name.rstrip("?!")
        value, place = (f"y.{attribute(name)}", f"{here} / {name!r}") if name else ("y", here)
        self._line(depth, f"k = {value}")
        self._line(depth, f"if k in s{' and k' if only_set else ''}:")
        self._line(depth + 1, f"out(duplicate({place}, k))")
        if ends:
            self._line(depth + 1, "continue")
        self._line(depth, "s.add(k)")

    def _below(self, depth: int, step: ConstraintStep, old: str, path: str) -> None:
        """Generate the steps of the message or messages that a field contains."""
        if step.field is None or not step.field.reference or not schema.message(step.field.reference).steps:
            return
        if step.field.is_list or step.field.is_map:
            here = f"{path} {'%' if step.field.is_map else '/'} i"
            self._line(depth, f"for i, y in {'x.items()' if step.field.is_map else 'enumerate(x)'}:")
            self._called(depth + 1, step, "y", "None", here)
        else:
            self._called(depth, step, "x", f"{old} if o is not None else None", path)

    def _called(self, depth: int, step: ConstraintStep, value: str, old: str, path: str) -> None:
        assert step.field is not None
        name = self._constant(None)
        self._names[name] = _deferred(self._names, name, step.field.reference)
        self._line(depth, f"{name}({value}, {old}, {path}, out)")


def _deferred(names: dict[str, Any], name: str, message: str) -> Checker:
    """Return a function that compiles the steps of a message on its first call: messages may contain themselves."""

    def first(value: Any, old: Any, path: Path | None, out: Callable[[Any], None]) -> None:
        made = names[name] = steps_of(message)
        assert made is not None  # only messages with steps are called
        made(value, old, path, out)

    return first
