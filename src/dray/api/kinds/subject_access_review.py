"""SubjectAccessReview: checks whether a user has a permission."""

from __future__ import annotations

from dray.api.errors import forbidden, invalid
from dray.api.kind import CREATE_ONLY, Resource
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors
from dray.api.types import authorization

AccessReview = (
    authorization.SubjectAccessReview | authorization.LocalSubjectAccessReview | authorization.SelfSubjectAccessReview
)


KIND = Resource(authorization.SubjectAccessReview, namespaced=False, verbs=CREATE_ONLY)


def access_review(review: AccessReview, _: Path | None) -> Errors:
    """Yield errors in the spec of an access review: it needs exactly one kind of attributes, and a user or group."""
    spec = review.spec
    if spec.resourceAttributes is not None and spec.nonResourceAttributes is not None:
        text = "cannot be specified in combination with resourceAttributes"
        yield invalid(SPEC / "nonResourceAttributes", spec.nonResourceAttributes, text)
    if spec.resourceAttributes is None and spec.nonResourceAttributes is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid(SPEC / "resourceAttributes", None, text)
    if not isinstance(review, authorization.SelfSubjectAccessReview) and not (review.spec.user or review.spec.groups):
        yield invalid(SPEC / "user", review.spec.user, "at least one of user or group must be specified")
    if isinstance(review, authorization.LocalSubjectAccessReview):
        yield from _local_review(review)


def _local_review(review: authorization.LocalSubjectAccessReview) -> Errors:
    attributes = review.spec.resourceAttributes
    if attributes is not None and attributes.namespace != review.metadata.namespace:
        text = "must match metadata.namespace"
        yield invalid(SPEC / "resourceAttributes" / "namespace", attributes.namespace, text)
    if review.spec.nonResourceAttributes is not None:
        text = "disallowed on this kind of request"
        yield forbidden(SPEC / "nonResourceAttributes", text)
