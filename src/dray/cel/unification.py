"""Whether one type may stand for another, and what that says about type parameters.

Two parties of equal rights: a type parameter on either side is bound to the other side, to the
more general of two where it was bound before. A failed attempt leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types
from dray.cel.types import Kind, Type

_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP})
_COMPOSED = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})


class Bindings:
    """What type parameters stand for."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._journal: list[tuple[Type, Type | None]] = []

    def unify(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether each given type may stand for the wanted one; if so, what follows is bound."""
        self._journal.clear()
        if self._assignable_all(given, wanted):
            return True
        for parameter, before in reversed(self._journal):
            if before is None:
                del self._bound[parameter]
            else:
                self._bound[parameter] = before
        return False

    def substitute(self, of: Type, unbound_to_dyn: bool = False) -> Type:
        """The type with all bound parameters replaced."""
        if not of.open:
            return of
        known = self._bound.get(of)
        if known is not None:
            return self.substitute(known, unbound_to_dyn)
        if of.kind is Kind.PARAM:
            return types.DYN if unbound_to_dyn else of
        return Type(of.kind, of.name, tuple(self.substitute(part, unbound_to_dyn) for part in of.params))

    def _assignable_all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        return len(given) == len(wanted) and all(map(self._assignable, given, wanted))

    def _assignable(self, given: Type, wanted: Type) -> bool:
        if wanted.kind is Kind.PARAM:
            valid, bound = self._bind(given, wanted)
            if valid or bound:
                return valid
        if given.kind is Kind.PARAM:
            return self._bind(wanted, given)[0]
        if _passes(given) or _passes(wanted):
            return True
        if given.kind is Kind.NULL or wanted.kind is Kind.NULL:
            other = wanted if given.kind is Kind.NULL else given
            return other.kind is Kind.NULL or other.kind in _NULLABLE
        if given.kind is Kind.TYPE:
            return wanted.kind is Kind.TYPE
        if given.kind in _COMPOSED:
            same = given.kind is wanted.kind and given.name == wanted.name
            return same and self._assignable_all(given.params, wanted.params)
        return given == wanted

    def _set(self, parameter: Type, to: Type) -> None:
        self._journal.append((parameter, self._bound.get(parameter)))
        self._bound[parameter] = to

    def _bind(self, given: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether the parameter can be what is given, and whether it was bound before."""
        if given == parameter:
            return True, True
        known = self._bound.get(parameter)
        if known is not None:
            if given == known:
                return True, True
            if not self._assignable(given, known):
                return False, True
            general = most_general(given, known)
            if self._free_of(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._free_of(parameter, given):
            self._set(parameter, given)
            return True, False
        return False, False

    def _free_of(self, parameter: Type, within: Type) -> bool:
        """Whether the parameter does not occur in the type, directly or through what is bound."""
        if not within.open:
            return True
        if parameter == within:
            return False
        if within.kind is Kind.PARAM:
            known = self._bound.get(within)
            return known is None or self._free_of(parameter, known)
        return all(self._free_of(parameter, part) for part in within.params)


def instantiate(parameters: dict[Type, Type], of: Type) -> Type:
    """The type with its parameters replaced by others."""
    if not of.open:
        return of
    if of.kind is Kind.PARAM:
        return parameters[of]
    return Type(of.kind, of.name, tuple(instantiate(parameters, part) for part in of.params))


def most_general(left: Type, right: Type) -> Type:
    """The one of two unified types that says less."""
    return left if _says_no_more(left, right) else right


def _passes(of: Type) -> bool:
    return of.is_dyn or of.kind is Kind.ERROR


def _says_no_more(left: Type, right: Type) -> bool:
    if left is right or left.is_dyn or left.kind is Kind.PARAM:
        return True
    if right.is_dyn or right.kind is Kind.PARAM or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOSED:
        same = left.name == right.name and len(left.params) == len(right.params)
        return same and all(map(_says_no_more, left.params, right.params))
    return left == right
