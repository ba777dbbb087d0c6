"""Label selectors: the text form of queries and the structured form of objects, matched by one class.

Grammar and error messages are those of Kubernetes: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`,
`a<1`, separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import msgspec

from dray.api import names
from dray.api.errors import FieldError, invalid
from dray.api.types import meta

AnySelector: TypeAlias = meta.LabelSelector | dict[str, str] | None  # all forms of a selector in an object
Operator = Literal["in", "notin", "=", "==", "!=", "gt", "lt", "exists", "!"]

_SPECIAL = {"(": "(", ")": ")", ",": ",", "!": "!", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_LEXEME = re.compile(r"\s*(?:([^\s=!(),><]+)|([=!><]+|[(),])|$)")
_FEW = 16  # up to this number of values, searching a tuple is as fast as a set lookup
_BINARY = "in, notin, =, ==, !=, gt, lt"
_STRUCT_OPERATORS: Mapping[str, Operator] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class SelectorError(ValueError):
    """The text is not a valid label selector; the message says where and what was expected."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label."""

    key: str
    operator: Operator
    values: Collection[str] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet the requirement.

        A missing label meets `notin`, `!=` and `!`. `gt` and `lt` need integers on both sides.
        """
        value = labels.get(self.key)
        if self.operator in ("in", "=", "=="):
            return value in self.values
        if self.operator in ("notin", "!="):
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        number, bound = _integer(value), _integer(next(iter(self.values)))
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "gt" else number < bound


class LabelRequirements(msgspec.Struct, frozen=True, gc=False):
    """Conditions that must all hold."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False  # whether nothing matches: an absent selector matches nothing, an empty one everything

    @property
    def everything(self) -> bool:
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet all requirements; False for the compiled form of a missing selector."""
        for requirement in self.requirements:
            if not requirement.matches(labels):
                return False
        return not self.nothing


EVERYTHING = LabelRequirements()
NOTHING = LabelRequirements(nothing=True)


def spelled_out(selector: AnySelector) -> meta.LabelSelector | None:
    """Return a selector as a LabelSelector; a ReplicationController has a plain dict of labels instead."""
    return meta.LabelSelector(matchLabels=selector) if isinstance(selector, dict) else selector


def label_selector(selector: AnySelector) -> LabelRequirements:
    """Return the compiled form of a selector in an object. None matches nothing, an empty selector everything.

    Expressions with an unknown operator are ignored.
    """
    selector = spelled_out(selector)
    if selector is None:
        return NOTHING
    equal = [Requirement(key, "=", (value,)) for key, value in selector.matchLabels.items()]
    rest = [
        Requirement(expression.key, _STRUCT_OPERATORS[expression.operator], _values(expression.values))
        for expression in selector.matchExpressions
        if expression.operator in _STRUCT_OPERATORS
    ]
    return LabelRequirements((*equal, *rest))


def _values(said: tuple[str, ...]) -> Collection[str]:
    """Return the values, as a set if there are many: a selector is compared with thousands of objects."""
    return said if len(said) <= _FEW else frozenset(said)


def parse(text: str) -> LabelRequirements:
    """Parse the text form of a label selector; an empty text matches everything.

    Raises SelectorError if the text is invalid.
    """
    return LabelRequirements(_RequirementParser(text).requirements()) if text.strip() else EVERYTHING


def _integer(text: str | None) -> int | None:
    """Return the 64-bit integer in a text, or None if it has none or the text is None."""
    if text is None or not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


class _Token(msgspec.Struct, frozen=True):
    kind: str  # "word", "end", "in", "notin" or a symbol
    text: str

    def as_value(self) -> _Token:
        """Return the token as a word if it is `in` or `notin`, for positions where no operator is possible."""
        return _Token("word", self.text) if self.kind in ("in", "notin") else self


class _RequirementParser:
    """Parses requirements from left to right with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0

    def _peek(self) -> _Token:
        return self._tokens[self._next].as_value()

    def _take(self, operator: bool = False) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token if operator else token.as_value()

    def requirements(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while self._peek().kind != "end":
            if self._peek().kind not in ("word", "!"):
                raise SelectorError(f"found '{self._peek().text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token.kind == "end":
                break
            if token.kind != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")
            if self._peek().kind not in ("word", "!"):
                raise SelectorError(f"found '{self._peek().text}', expected: identifier after ','")
        return tuple(found)

    def _requirement(self) -> Requirement:
        token = self._take()
        negated = token.kind == "!"
        if negated:
            token = self._take()
        if token.kind != "word":
            raise SelectorError(f"found '{token.text}', expected: identifier")
        key = token.text
        _raise_first([invalid("key", key, text) for text in names.qualified_name(key)])
        if negated or self._peek().kind in ("end", ","):
            return Requirement(key, "!" if negated else "exists")
        operator = self._operator()
        values = self._list() if operator in ("in", "notin") else (self._single(),)
        return _checked(Requirement(key, operator, values))

    def _operator(self) -> Operator:
        token = self._take(operator=True)
        kind = _SPECIAL.get(token.kind, token.kind)
        if kind not in ("in", "notin", "=", "==", "!=", "gt", "lt"):
            raise SelectorError(f"found '{token.text}', expected: {_BINARY}")
        return kind  # type: ignore[return-value]  # the line above checks that it is an operator

    def _single(self) -> str:
        if self._peek().kind in ("end", ","):
            return ""
        token = self._take()
        if token.kind != "word":
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _list(self) -> tuple[str, ...]:
        token = self._take()
        if token.kind != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        values: list[str] = []
        if self._peek().kind == ")":
            self._take()
            return ()
        while True:
            values.append(self._take().text if self._peek().kind == "word" else "")
            token = self._take()
            if token.kind == ")":
                return tuple(sorted(set(values)))
            if token.kind != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or ')'")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while position < len(text):
        match = _LEXEME.match(text, position)
        assert match is not None  # the pattern also matches nothing
        position = match.end()
        word, symbols = match.groups()
        if word:
            tokens.append(_Token(word if word in ("in", "notin") else "word", word))
        elif symbols:
            # Take the longest symbol: "==" before "=", "!=" before "!".
            length = 2 if symbols[:2] in ("==", "!=") else 1
            position -= len(symbols) - length
            tokens.append(_Token(symbols[:length], symbols[:length]))
    return [*tokens, _Token("end", "")]


def _checked(requirement: Requirement) -> Requirement:
    """Return the requirement unchanged. Raises SelectorError if its values are invalid."""
    if requirement.operator in ("in", "notin") and not requirement.values:
        raise SelectorError(str(invalid("values", [], "for 'in', 'notin' operators, values set can't be empty")))
    if requirement.operator in ("gt", "lt") and _integer(bound := next(iter(requirement.values))) is None:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise SelectorError(str(invalid("values[0]", bound, text)))
    for index, value in enumerate(requirement.values):
        path = f"values[{index}][{requirement.key}]"
        _raise_first([invalid(path, value, text) for text in names.label_value(value)])
    return requirement


def _raise_first(errors: list[FieldError]) -> None:
    if errors:
        raise SelectorError(str(errors[0]))
