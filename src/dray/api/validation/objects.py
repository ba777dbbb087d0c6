"""Validation of objects in the order of Kubernetes: metadata, rules, steps, constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain, islice
from typing import Any

from dray.api.constraints import Checker, function, judged, performed, steps_of
from dray.api.errors import MOST_ERRORS, FieldError
from dray.api.kind import CHANGES_FIRST, Renames, Resource
from dray.api.validation import custom
from dray.api.validation.context import Context
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.wire import Wire

ObjectRule = Callable[..., Iterable[FieldError]]


def _rule(name: str) -> ObjectRule:
    """Return the function that a kind names, or a function that returns no errors for an empty name."""
    return function(name) if name else _nothing


def _nothing(*_: Any) -> Iterable[FieldError]:
    return ()


def validate_create(resource: Resource, object_: Wire, context: Context) -> list[FieldError]:
    """Validate a new object. Returns its field errors; empty if it is valid."""
    if resource.custom is not None:
        return list(custom.create(resource, object_, context))
    found = chain(_metadata_of(resource, object_), _rules(resource, object_, None, "", context))
    return _told(resource, found, object_, None, context)


def validate_copy(resource: Resource, object_: Wire, context: Context) -> list[FieldError]:
    """Validate a new object that differs from a valid object only in its metadata. Returns its field errors.

    For pods and claims, whose names can be any DNS subdomain.
    """
    return _in_version(resource, context, _first(_metadata_of(resource, object_)))


def validate_update(
    resource: Resource, object_: Wire, old: Wire, subresource: str, context: Context
) -> list[FieldError]:
    """Validate an update. Returns the field errors of `object_`; empty if it is valid.

    `old` is the object that it replaces; `subresource` is empty for the object itself.
    """
    if resource.custom is not None:
        return list(custom.update(resource, object_, old, context))
    rules = resource.rules
    changes = metadata_update(object_.metadata, old.metadata, rules.any_finalizer)  # type: ignore[attr-defined]  # every kind has metadata
    of_kind = _rules(resource, object_, old, subresource, context)
    if subresource or rules.order == CHANGES_FIRST:
        return _told(resource, chain(changes, of_kind), object_, old, context)
    parts = {
        "changes": changes,
        "last": _rule(rules.last)(object_, old, context),
        "metadata": _metadata_of(resource, object_),
        "rules": of_kind,
    }
    return _told(resource, chain.from_iterable(parts[part] for part in rules.order), object_, old, context)


def _rules(
    resource: Resource, object_: Wire, old: Wire | None, subresource: str, context: Context
) -> Iterable[FieldError]:
    """Yield the errors outside of metadata: first from the functions that the kind names, then from its steps."""
    rule, compares, steps = _validation(resource, subresource, old is None)
    yield from rule(object_, old, context) if compares else rule(object_, context)
    if steps is not None:
        yield from performed(steps, object_, None, old, context)


@cache
def _validation(resource: Resource, subresource: str, is_new: bool) -> tuple[ObjectRule, bool, Checker | None]:
    """Return the function of a kind for a write, whether it also gets the old object, and the steps to perform.

    Cached, because every write needs them. Only built-in kinds come here.
    """
    rules = resource.rules
    update = rules.subresources.get(subresource, "") if subresource else rules.update
    has_steps = is_new or (update is None and not subresource) or subresource == "status"
    steps = steps_of(_message(resource), subresource == "status") if has_steps else None
    if is_new or update is None:
        return _rule(rules.create), False, steps
    return _rule(update), True, steps


def _told(
    resource: Resource, errors: Iterable[FieldError], object_: Wire, old: Wire | None, context: Context
) -> list[FieldError]:
    """Return the errors of the rules followed by those of the schema constraints, at most MOST_ERRORS + 1."""
    found = _first(errors)
    if len(found) <= MOST_ERRORS and (more := judged(_message(resource), object_, old)):
        found += more[: MOST_ERRORS + 1 - len(found)]
    return _in_version(resource, context, found)


@cache
def _message(resource: Resource) -> str:
    """Return the schema name of a kind. Cached, because every write needs it."""
    return resource.home.message()


def _first(errors: Iterable[FieldError]) -> list[FieldError]:
    return list(islice(errors, MOST_ERRORS + 1))  # finding thousands of errors would take long


def _metadata_of(resource: Resource, object_: Any) -> Iterable[FieldError]:
    """Return the errors in metadata. Reviews, which are not stored, need no name.

    Returns nothing for reviews and kinds whose function validates the metadata itself.
    """
    rules = resource.rules
    if "get" not in resource.verbs or rules.name is None:
        return ()
    return metadata(object_.metadata, resource.namespaced, rules.name, rules.any_finalizer)


def _in_version(resource: Resource, context: Context, found: list[FieldError]) -> list[FieldError]:
    """Return the errors with the field names of the client's version; the same list if no name differs."""
    renames = resource.error_names.get(context.version) if found else None
    if renames is None:
        return found
    return [FieldError(error.reason, _renamed(renames, error.field), error.detail) for error in found]


def _renamed(renames: Renames, field: str) -> str:
    for pattern, name in renames:
        field = re.sub(pattern, name, field)
    return field
