"""How a patch is refused: two errors, as Kubernetes tells them apart.

A body that is no patch at all is a bad request and says what is wrong. A patch that is well formed but does not fit
the object is answered with 422 and a text that Kubernetes keeps the same for every cause; the cause is kept on the
exception for logs and tests.
"""

from __future__ import annotations

from dray.api.errors import ApiError, BadRequest

REJECTED = "the server rejected our request due to an error in our request"


class PatchRejected(ApiError):
    """The patch is well formed, but cannot be applied to this object."""

    code, reason = 422, "Invalid"

    def __init__(self, cause: str) -> None:
        super().__init__(REJECTED)
        self.cause = cause


class TestFailed(PatchRejected):
    """A value that the patch asks for first is another."""

    __test__ = False  # no test, whatever its name


class BadPatch(BadRequest):
    """The body is not a patch."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"error decoding patch: {cause}")
        self.cause = cause
