"""Cause: a pod requests an extended resource that the cluster does not provide."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class UseResource(Suggestion, frozen=True, tag="help-use-resource"):
    """Request another extended resource in the pod."""

    TEXT = "ask for {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class NoSuchResource(Cause, frozen=True, tag="NoSuchResource"):
    """No device class or node provides an extended resource that the pod requests.

    resource: the requested extended resource
    similar: an existing extended resource with a similar name
    """

    TEXT = "nothing serves {resource}: no device class does, by its extendedResourceName or its own name, and no node{meant}"
    HELPS = (UseResource,)

    resource: str
    similar: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar)}
