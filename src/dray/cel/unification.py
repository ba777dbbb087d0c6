"""Unification: whether a type is assignable to another type, and to which types this binds type parameters.

Unification is symmetric: a type parameter on either side is bound to the type on the other side, or to the more
general of two types if it was already bound. A failed attempt changes no binding.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types
from dray.cel.types import Kind, Type

_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP})
_COMPOSED = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})


class Bindings:
    """Types to which type parameters are bound."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._journal: list[tuple[str, Type | None]] = []
        self._substituted: dict[Type, Type] = {}
        self._containing: dict[str, list[Type]] = {}  # parameter → types that still contain it after substitution
        self._settled: dict[Type, Type] = {}

    def unify(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Unify each given type with the wanted one. Returns whether all fit; only then are parameters bound."""
        self._journal.clear()
        if self._assignable_all(given, wanted):
            self._forget_substitutions()
            return True
        for parameter, before in reversed(self._journal):
            if before is None:
                del self._bound[parameter]
            else:
                self._bound[parameter] = before
        return False

    def _forget_substitutions(self) -> None:
        for parameter, before in self._journal:
            if before is not None:
                self._substituted.clear()
                self._containing.clear()
                return
            for of in self._containing.pop(parameter, ()):
                self._substituted.pop(of, None)

    def substitute(self, of: Type) -> Type:
        """Return the type with all bound parameters replaced."""
        if not of.open:
            return of
        known = self._substituted.get(of)
        if known is None:
            known = self._substituted[of] = self._substitute(of)
            for parameter in known.open:
                self._containing.setdefault(parameter, []).append(of)
        return known

    def _substitute(self, of: Type) -> Type:
        if of.kind is Kind.PARAM:
            bound = self._bound.get(of.name)
            return of if bound is None else self.substitute(bound)
        return Type(of.kind, of.name, tuple(map(self.substitute, of.params)))

    def settle(self, of: Type) -> Type:
        """Return the type with all bound parameters replaced, and unbound ones replaced by dyn."""
        return self._without_parameters(self.substitute(of))

    def _without_parameters(self, of: Type) -> Type:
        if not of.open:
            return of
        if of.kind is Kind.PARAM:
            return types.DYN
        known = self._settled.get(of)
        if known is None:
            known = self._settled[of] = Type(of.kind, of.name, tuple(map(self._without_parameters, of.params)))
        return known

    def _assignable_all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        return len(given) == len(wanted) and all(map(self._assignable, given, wanted))

    def _assignable(self, given: Type, wanted: Type) -> bool:
        if given is wanted:
            return True
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
        self._journal.append((parameter.name, self._bound.get(parameter.name)))
        self._bound[parameter.name] = to

    def _bind(self, given: Type, parameter: Type) -> tuple[bool, bool]:
        """Bind a parameter to a type. Returns whether this is possible, and whether the parameter was bound before.

        The second value is also True if both types are equal; it is False if a new binding was made.
        """
        if given == parameter:
            return True, True
        known = self._bound.get(parameter.name)
        if known is not None:
            if given == known:
                return True, True
            if not self._assignable(given, known):
                return False, True
            general = most_general(given, known)
            if general != known and self._free_of(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._free_of(parameter, given):
            self._set(parameter, given)
            return True, False
        return False, False

    def _free_of(self, parameter: Type, within: Type) -> bool:
        """Return whether a parameter does not occur in a type, directly or through bound parameters."""
        if parameter.name in within.open:
            return False
        bound = (self._bound.get(name) for name in within.open)
        return all(known is None or self._free_of(parameter, known) for known in bound)


def instantiate(parameters: dict[Type, Type], of: Type) -> Type:
    """Return the type with its type parameters replaced according to the mapping."""
    if not of.open:
        return of
    if of.kind is Kind.PARAM:
        return parameters[of]
    return Type(of.kind, of.name, tuple(instantiate(parameters, part) for part in of.params))


def most_general(left: Type, right: Type) -> Type:
    """Return the more general of two types that have been unified."""
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
