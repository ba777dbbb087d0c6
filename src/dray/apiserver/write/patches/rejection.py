"""The two errors of patches, as Kubernetes distinguishes them.

A body that is not a patch is a BadRequest that says what is wrong. A well-formed patch that does not fit the object
is answered with 422 and one text for all causes, as in Kubernetes; the exception has the cause for logs and tests.
"""

from __future__ import annotations

from dray.api.errors import ApiError, BadRequest

REJECTED = "the server rejected our request due to an error in our request"


class PatchRejected(ApiError):
    """The patch is well-formed but cannot be applied to this object."""

    code, reason = 422, "Invalid"

    def __init__(self, cause: str) -> None:
        super().__init__(REJECTED)
        self.cause = cause


class TestFailed(PatchRejected):
    """A JSON patch `test` operation failed."""

    __test__ = False  # not a test class, despite its name


class BadPatch(BadRequest):
    """The body is not a patch."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"error decoding patch: {cause}")
        self.cause = cause
