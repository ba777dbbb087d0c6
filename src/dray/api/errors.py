"""Error classes of the API, one per reason of the Kubernetes Status object.

Errors can be raised anywhere. One place translates them to HTTP responses (`apiserver.http`), and one place
creates them from HTTP responses (`client`). Field errors have the path, reason and message that clients parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from dray.api.quoting import quote
from dray.api.resources import Resource

MOST_ERRORS = 400  # maximum errors reported for one object, which can have thousands


class FieldError(msgspec.Struct, frozen=True):
    """One invalid field, with the message of Kubernetes."""

    reason: str  # FieldValueInvalid, FieldValueRequired, …
    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"

    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.detail, "field": self.field}


_ESCAPED = {
    ord(char): f"\\u{ord(char):04x}" for char in "<>&"
}  # characters that Go escapes, so that JSON can be embedded in HTML


def shown(value: Any) -> str:
    """Return a value as Kubernetes prints it in field errors: strings quoted, other values as JSON."""
    if isinstance(value, str):
        return quote(value)
    return msgspec.json.encode(value, order="deterministic").decode().translate(_ESCAPED)  # Go sorts maps


def _text(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def invalid(path: object, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", str(path), _text(f"Invalid value: {shown(value)}", detail))


def wrong(path: object, detail: str) -> FieldError:
    """Return the error for an invalid value that is too large, or not useful, to be shown in the message."""
    return FieldError("FieldValueInvalid", str(path), _text("Invalid value", detail))


def required(path: object, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", str(path), _text("Required value", detail))


def duplicate(path: object, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueDuplicate", str(path), _text(f"Duplicate value: {shown(value)}", detail))


def forbidden(path: object, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", str(path), _text("Forbidden", detail))


def not_found_value(path: object, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", str(path), _text(f"Not found: {shown(value)}", detail))


def internal(path: object, detail: str) -> FieldError:
    return FieldError("InternalError", str(path), _text("Internal error", detail))


def unsupported(path: object, value: Any, supported: Sequence[str]) -> FieldError:
    """Return the error for a value that is not in `supported`, which Kubernetes sorts in most places."""
    options = ", ".join(map(shown, supported))
    return FieldError(
        "FieldValueNotSupported", str(path), f"Unsupported value: {shown(value)}: supported values: {options}"
    )


def too_long(path: object, limit: int, unit: str = "bytes") -> FieldError:
    return FieldError("FieldValueTooLong", str(path), f"Too long: may not be more than {limit} {unit}")


def too_many(path: object, actual: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", str(path), f"Too many: {actual}: must have at most {limit} items")


class ApiError(Exception):
    """A failed API request; base class of all API errors."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """Return the Status object of the response. An empty reason and empty details are left out."""
        answer: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            answer["reason"] = self.reason
        if self.details:
            answer["details"] = {k: v for k, v in self.details.items() if v not in (None, "", [])}
        answer["code"] = self.code
        return answer


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Gone(ApiError):
    code, reason = 410, "Gone"


class Expired(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"

    def __init__(self, resource: Resource, name: str, errors: Sequence[FieldError], kind: str = "") -> None:
        kind = kind or resource.kind
        errors = tuple(dict.fromkeys(errors))  # two rules may report the same error
        texts = [str(e) for e in errors[:MOST_ERRORS]]
        if len(errors) > MOST_ERRORS:
            texts.append("and more")
        text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        qualified = f"{kind}.{resource.group}" if resource.group else kind
        super().__init__(
            f'{qualified} "{name}" is invalid: {text}',
            name=name,
            group=resource.group,
            kind=kind,
            causes=[e.cause() for e in errors[:MOST_ERRORS]],
        )
        self.errors = errors


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class NotImplementedYet(ApiError):
    code, reason = 501, "NotImplemented"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', name=name, group=resource.group, kind=resource.plural)


def already_exists(resource: Resource, name: str) -> AlreadyExists:
    return AlreadyExists(
        f'{resource.qualified} "{name}" already exists', name=name, group=resource.group, kind=resource.plural
    )


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )
