"""Functions of semantic versions."""

from __future__ import annotations

from dray.api.semver import Semver, SemverError
from dray.cel import types
from dray.cel.declarations import function, method, overload, succeeds
from dray.cel.errors import EvaluationError
from dray.cel.prices import PARSING
from dray.cel.values import INT_MAX, Value


def semver(text: str, normalize: bool = False) -> Value:
    """Evaluate `semver(text)`: parse a semantic version. Raises EvaluationError if it is invalid.

    With `normalize`, incomplete forms like `v1.2` are accepted.
    """
    try:
        return Semver.parse(text, normalize=normalize)
    except SemverError as error:
        raise EvaluationError(str(error)) from error


def _signed(number: int) -> Value:
    """Convert an unsigned part of a version to a CEL int; values above the maximum wrap around to negative numbers."""
    return number if number <= INT_MAX else number - 2**64


_S, _V = types.STRING, types.SEMVER

FUNCTIONS = (
    function(
        "semver",
        overload("string_to_semver", (_S,), _V, semver),
        overload("string_bool_to_semver", (_S, types.BOOL), _V, semver),
        price=PARSING,
    ),
    function(
        "isSemver",
        overload("is_semver_string", (_S,), types.BOOL, succeeds(semver)),
        overload("is_semver_string_bool", (_S, types.BOOL), types.BOOL, succeeds(semver)),
        price=PARSING,
    ),
    function("major", method("semver_major", (_V,), types.INT, lambda version: _signed(version.major))),
    function("minor", method("semver_minor", (_V,), types.INT, lambda version: _signed(version.minor))),
    function("patch", method("semver_patch", (_V,), types.INT, lambda version: _signed(version.patch))),
)
