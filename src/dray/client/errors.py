"""Converts error responses of a server to exceptions. The server has the reverse conversion."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import msgspec

from dray.api import errors
from dray.api.errors import ApiError, FieldError

_CLASSES: tuple[type[ApiError], ...] = (
    errors.BadRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.MethodNotAllowed,
    errors.NotAcceptable,
    errors.Conflict,
    errors.AlreadyExists,
    errors.Expired,
    errors.Gone,
    errors.TooLarge,
    errors.UnsupportedMediaType,
    errors.Invalid,
    errors.TooManyRequests,
    errors.InternalError,
    errors.NotImplementedYet,
    errors.ServiceUnavailable,
    errors.Timeout,
)
_BY_REASON = {class_.reason: class_ for class_ in _CLASSES} | {"ServerTimeout": errors.Timeout}
# Of two classes with the same code, the first applies to a code without a reason. A proxy returns 502 if the server is down.
_BY_CODE = {class_.code: class_ for class_ in reversed(_CLASSES)} | {502: errors.ServiceUnavailable}


def from_answer(code: int, body: bytes) -> ApiError:
    """Return the error for an unsuccessful HTTP response, whose body may also be a proxy's HTML."""
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = None
    if isinstance(tree, dict) and tree.get("kind") == "Status":
        return from_status({"code": code, **tree})
    text = body[:200].decode(errors="replace").strip() or _phrase(code)
    return _class(code, "")(f"the server answered {code}: {text}") if code != 422 else errors.BadRequest(text)


def from_status(status: dict[str, Any]) -> ApiError:
    """Return the error for a Status object. The class depends on its reason and code (500 if the code is missing)."""
    code, reason = status.get("code") or 500, status.get("reason") or ""
    message, details = status.get("message") or _phrase(code), status.get("details") or {}
    class_ = _class(code, reason)
    if class_ is errors.Invalid:
        return _invalid(message, details)
    return class_(message, **details)


def _class(code: int, reason: str) -> type[ApiError]:
    fallback = errors.BadRequest if 400 <= code < 500 else errors.InternalError
    return _BY_REASON.get(reason) or _BY_CODE.get(code, fallback)


def _invalid(message: str, details: dict[str, Any]) -> errors.Invalid:
    """Return an Invalid error with the server's message; its constructor would compose the message from field errors."""
    error = errors.Invalid.__new__(errors.Invalid)
    ApiError.__init__(error, message, **details)
    causes = details.get("causes") or ()
    error.errors = tuple(FieldError(c.get("reason", ""), c.get("field", ""), c.get("message", "")) for c in causes)
    return error


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"status {code}"


_OF_OBJECT = re.compile(r'^[\w.\-/]+ "[^"]*" is forbidden: | in the namespace "[^"]*"$')


def permission_of(error: errors.Forbidden) -> str:
    """Return the text of a refusal without the object and the namespace, so it is the same for all objects of a kind."""
    return _OF_OBJECT.sub("", str(error))
