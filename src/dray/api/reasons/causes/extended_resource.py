"""A pod asks for an extended resource that nothing serves."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class UseResource(Suggestion, frozen=True, tag="help-use-resource"):
    """Another extended resource in a pod."""

    TEXT = "ask for {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class NoSuchResource(Cause, frozen=True, tag="NoSuchResource"):
    """Nothing in the cluster serves an extended resource that the pod asks for.

    resource: what it asks for
    similar: an extended resource that is served and has a similar name
    """

    TEXT = "nothing serves {resource}: no device class does, by its extendedResourceName or its own name, and no node{meant}"
    HELPS = (UseResource,)

    resource: str
    similar: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar)}
