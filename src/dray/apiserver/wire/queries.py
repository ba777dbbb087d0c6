"""Parse a query string to RequestOptions, with Kubernetes' messages for invalid values.

As in Kubernetes, parameters that a verb does not know are ignored, and invalid values are rejected.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from dray.api.errors import BadRequest, FieldError, Invalid, unsupported
from dray.api.resources import Resource
from dray.api.wire import Wire
from dray.apiserver.request import RequestOptions

Query = dict[str, str]
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_FIELD_VALIDATION = ("Ignore", "Strict", "Warn")
_LONGEST = 1 << 63
_DEFAULT = RequestOptions(field_validation="Warn")  # as in Kubernetes: misspelled fields cause warnings


class OptionsInvalid(Invalid):
    """Invalid options, reported like an invalid object of kind `kind`."""

    def __init__(self, kind: str, errors: list[FieldError]) -> None:
        super().__init__(Resource(Wire, group="meta.k8s.io", kind=kind, plural=kind.lower(), stored="v1"), "", errors)


def parse_query(text: bytes | str) -> Query:
    """Return the first value of each parameter; empty for an empty query.

    Raises BadRequest if the query cannot be decoded or has too many parameters.
    """
    if not text:
        return {}
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=200)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadRequest(f"the query cannot be read: {error}") from error
    query: Query = {}
    for name, value in pairs:
        query.setdefault(name, value)
    return query


def integer(text: str) -> int:
    """Return a parameter as an integer.

    Raises BadRequest in Go's wording if it is no decimal number or does not fit into 64 bits.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text) if len(text) < 25 else _LONGEST
    if not -_LONGEST <= value < _LONGEST:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def boolean(text: str) -> bool:
    """Return a parameter as a boolean by Go's rule; an empty value is true. Raises BadRequest."""
    if text in _FALSE:
        return False
    if text and text not in _TRUE:
        raise BadRequest(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return True


def options_of(verb: str, query: Query, patch_type: str = "") -> RequestOptions:
    """Return the options in a query. `patch_type` is the media type of a patch, or empty for other requests.

    Raises BadRequest for a malformed number or boolean, and OptionsInvalid for an unknown fieldValidation or dryRun,
    or a wrong `force`.
    """
    if not query and not patch_type:
        return _DEFAULT
    found: dict[str, Any] = {"field_validation": _DEFAULT.field_validation}
    for key, text in query.items():
        if key in _READERS:
            name, read = _READERS[key]
            found[name] = read(text)
    if patch_type:
        found["patch_type"] = patch_type
    _check(verb, query)
    if patch_type and "force" in query and patch_type != "application/apply-patch+yaml":
        raise OptionsInvalid("PatchOptions", [_force_forbidden()])
    return RequestOptions(**found)


def _check(verb: str, query: Query) -> None:
    """Raise OptionsInvalid for an unknown fieldValidation or dryRun. `verb` names the options in the message."""
    kind = f"{verb.capitalize()}Options"
    validation = query.get("fieldValidation", "")
    errors = []
    if validation and validation not in _FIELD_VALIDATION:
        errors.append(unsupported("fieldValidation", validation, ("", *_FIELD_VALIDATION)))
    dry_run = query.get("dryRun")
    if dry_run is not None and dry_run != "All":
        errors.append(unsupported("dryRun", dry_run, ("All",)))
    if errors:
        raise OptionsInvalid(kind, errors)


def _force_forbidden() -> FieldError:
    return FieldError("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch")


def _count(text: str) -> int:
    """Return a non-negative integer. Raises BadRequest if the text is no number or negative."""
    value = integer(text)
    if value < 0:
        raise BadRequest(f"limit: expected a number that is not negative, got {value}")
    return value


_READERS: dict[str, tuple[str, Any]] = {
    "labelSelector": ("label_selector", str),
    "fieldSelector": ("field_selector", str),
    "limit": ("limit", _count),
    "continue": ("continue_token", str),
    "resourceVersion": ("resource_version", str),
    "resourceVersionMatch": ("resource_version_match", str),
    "timeoutSeconds": ("timeout_seconds", integer),
    "allowWatchBookmarks": ("allow_bookmarks", boolean),
    "sendInitialEvents": ("send_initial_events", boolean),
    "dryRun": ("dry_run", lambda text: text == "All"),
    "fieldManager": ("field_manager", str),
    "fieldValidation": ("field_validation", lambda text: text or "Warn"),
    "force": ("force", boolean),
    "gracePeriodSeconds": ("grace_period_seconds", integer),
    "propagationPolicy": ("propagation_policy", str),
}
