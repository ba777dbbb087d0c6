"""Whether one type may stand for another, and what that says about type parameters.

Two parties of equal rights: a type parameter on either side is bound to the other side, to the
more general of two where it was bound before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types
from dray.cel.types import Kind, Type

Bindings = dict[Type, Type]

_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP})
_COMPOSED = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})


def unify(bindings: Bindings, given: Sequence[Type], wanted: Sequence[Type]) -> Bindings | None:
    """The bindings under which each given type may stand for the wanted one; None if there are none."""
    attempt = dict(bindings)
    return attempt if _assignable_all(attempt, given, wanted) else None


def _assignable_all(bindings: Bindings, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
    return len(given) == len(wanted) and all(
        _assignable(bindings, left, right) for left, right in zip(given, wanted, strict=True)
    )


def _assignable(bindings: Bindings, given: Type, wanted: Type) -> bool:
    if wanted.kind is Kind.PARAM:
        valid, bound = _bind(bindings, given, wanted)
        if valid or bound:
            return valid
    if given.kind is Kind.PARAM:
        return _bind(bindings, wanted, given)[0]
    if _passes(given) or _passes(wanted):
        return True
    if given.kind is Kind.NULL or wanted.kind is Kind.NULL:
        other = wanted if given.kind is Kind.NULL else given
        return other.kind is Kind.NULL or other.kind in _NULLABLE
    if given.kind is Kind.TYPE:
        return wanted.kind is Kind.TYPE
    if given.kind in _COMPOSED:
        same = given.kind is wanted.kind and given.name == wanted.name
        return same and _assignable_all(bindings, given.params, wanted.params)
    return given == wanted


def _passes(of: Type) -> bool:
    return of.is_dyn or of.kind is Kind.ERROR


def _bind(bindings: Bindings, given: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether the parameter can be what is given, and whether it was bound before."""
    if given == parameter:
        return True, True
    known = bindings.get(parameter)
    if known is not None:
        if given == known:
            return True, True
        if not _assignable(bindings, given, known):
            return False, True
        general = most_general(given, known)
        if _free_of(bindings, parameter, general):
            bindings[parameter] = general
        return True, True
    if _free_of(bindings, parameter, given):
        bindings[parameter] = given
        return True, False
    return False, False


def most_general(left: Type, right: Type) -> Type:
    """The one of two unified types that says less."""
    return left if _says_no_more(left, right) else right


def _says_no_more(left: Type, right: Type) -> bool:
    if left.is_dyn or left.kind is Kind.PARAM:
        return True
    if right.is_dyn or right.kind is Kind.PARAM or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOSED:
        same = left.name == right.name and len(left.params) == len(right.params)
        return same and all(map(_says_no_more, left.params, right.params))
    return left == right


def _free_of(bindings: Bindings, parameter: Type, within: Type) -> bool:
    """Whether the parameter does not occur in the type, directly or through what is bound."""
    if parameter == within:
        return False
    if within.kind is Kind.PARAM:
        known = bindings.get(within)
        return known is None or _free_of(bindings, parameter, known)
    return all(_free_of(bindings, parameter, part) for part in within.params)


def substitute(bindings: Bindings, of: Type, unbound_to_dyn: bool = False) -> Type:
    """The type with all bound parameters replaced."""
    known = bindings.get(of)
    if known is not None:
        return substitute(bindings, known, unbound_to_dyn)
    if of.kind is Kind.PARAM:
        return types.DYN if unbound_to_dyn else of
    if not of.params:
        return of
    return Type(of.kind, of.name, tuple(substitute(bindings, part, unbound_to_dyn) for part in of.params))
