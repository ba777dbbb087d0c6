"""Causes: a pod refers to a claim or template that does not exist."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class UseClaim(Suggestion, frozen=True, tag="help-use-claim"):
    """Refer to another claim in the pod."""

    TEXT = "use claim {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class UseTemplate(Suggestion, frozen=True, tag="help-use-template"):
    """Refer to another template in the pod."""

    TEXT = "use template {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class AsTemplate(Suggestion, frozen=True, tag="help-as-template"):
    """Refer to the name as a template instead of a claim."""

    TEXT = "write resourceClaimTemplateName instead of resourceClaimName: {template} in {where}"

    where: str
    template: str


class AsClaim(Suggestion, frozen=True, tag="help-as-claim"):
    """Refer to the name as a claim instead of a template."""

    TEXT = "write resourceClaimName instead of resourceClaimTemplateName: {claim} in {where}"

    where: str
    claim: str


class CopyClaim(Suggestion, frozen=True, tag="help-copy-claim"):
    """Create the same claim as in another namespace."""

    TEXT = "create claim {claim} here as it is in namespace {copied_from}: claims are of one namespace"

    claim: str
    copied_from: str


class CopyTemplate(Suggestion, frozen=True, tag="help-copy-template"):
    """Create the same template as in another namespace."""

    TEXT = "create template {template} here as it is in namespace {copied_from}: templates are of one namespace"

    template: str
    copied_from: str


class ClaimMissing(Cause, frozen=True, tag="ClaimMissing"):
    """The claim that a pod refers to does not exist.

    claim: name of the missing claim
    similar: a claim in the namespace with a similar name
    other_kind: kind of an existing object with this name: ResourceClaimTemplate
    """

    TEXT = 'its resourceclaim "{claim}" does not exist{meant}{other}'
    HELPS = (UseClaim, AsTemplate, CopyClaim)

    claim: str
    similar: str = ""
    other_kind: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar), "other": of_other_kind(self.other_kind)}


class TemplateMissing(Cause, frozen=True, tag="TemplateMissing"):
    """The claim template that a pod or its PodGroup refers to does not exist.

    template: name of the missing template
    similar: a template in the namespace with a similar name
    other_kind: kind of an existing object with this name: ResourceClaim
    """

    TEXT = 'its resourceclaimtemplate "{template}" does not exist{meant}{other}'
    HELPS = (UseTemplate, AsClaim, CopyTemplate)

    template: str
    similar: str = ""
    other_kind: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar), "other": of_other_kind(self.other_kind)}


def of_other_kind(kind: str) -> str:
    """Return the phrase that an object of another kind has this name, or an empty string if `kind` is empty."""
    return say(CausePhrase.OF_OTHER_KIND, kind=kind) if kind else ""
