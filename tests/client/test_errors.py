"""Answers become the errors that they mean."""

import msgspec
import pytest

from dray.api import errors
from dray.api.resources import BY_NAME
from dray.client.errors import from_answer, from_status

CLAIMS = BY_NAME["resource.k8s.io", "resourceclaims"]

SAMPLES = [
    errors.not_found(CLAIMS, "c"),
    errors.already_exists(CLAIMS, "c"),
    errors.conflict(CLAIMS, "c", "somebody was faster"),
    errors.Invalid(CLAIMS, "c", [errors.required("spec"), errors.invalid("spec.x", 3, "too odd")]),
    errors.Expired("too old"),
    errors.Gone("gone"),
    errors.Forbidden("no"),
    errors.TooManyRequests("later", retryAfterSeconds=3),
    errors.NotImplementedYet("not here"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.reason)
def test_an_error_survives_the_way_through_its_status(error: errors.ApiError) -> None:
    again = from_answer(error.code, msgspec.json.encode(error.status()))
    assert type(again) is type(error)
    assert again.status() == error.status()


def test_field_errors_come_back() -> None:
    error = from_status(SAMPLES[3].status())
    assert isinstance(error, errors.Invalid)
    assert [e.field for e in error.errors] == ["spec", "spec.x"]


@pytest.mark.parametrize(
    ("code", "body", "expected", "text"),
    [
        (404, b"404 page not found\n", errors.NotFound, "404 page not found"),
        (502, b"<html>bad gateway", errors.ServiceUnavailable, "bad gateway"),
        (409, b"", errors.Conflict, "Conflict"),
        (410, b"", errors.Expired, "Gone"),
        (418, b"\xff", errors.BadRequest, "418"),
        (422, b"odd", errors.BadRequest, "odd"),
        (599, b"{}", errors.InternalError, "599"),
        (500, b'{"kind":"Status"', errors.InternalError, "500"),
    ],
)
def test_an_answer_without_status_is_judged_by_its_code(
    code: int, body: bytes, expected: type[errors.ApiError], text: str
) -> None:
    error = from_answer(code, body)
    assert type(error) is expected
    assert text in error.message


def test_an_unknown_reason_falls_back_to_the_code() -> None:
    assert type(from_status({"kind": "Status", "reason": "Odd", "code": 403})) is errors.Forbidden
    assert type(from_status({"kind": "Status"})) is errors.InternalError
