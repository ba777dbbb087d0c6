"""A pod names a claim or a template that does not exist."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class UseClaim(Suggestion, frozen=True, tag="help-use-claim"):
    """Another claim in a pod."""

    TEXT = "use claim {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class UseTemplate(Suggestion, frozen=True, tag="help-use-template"):
    """Another template in a pod."""

    TEXT = "use template {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class AsTemplate(Suggestion, frozen=True, tag="help-as-template"):
    """A name that is one of a template, and is written as one of a claim."""

    TEXT = "write resourceClaimTemplateName instead of resourceClaimName: {template} in {where}"

    where: str
    template: str


class AsClaim(Suggestion, frozen=True, tag="help-as-claim"):
    """A name that is one of a claim, and is written as one of a template."""

    TEXT = "write resourceClaimName instead of resourceClaimTemplateName: {claim} in {where}"

    where: str
    claim: str


class CopyClaim(Suggestion, frozen=True, tag="help-copy-claim"):
    """A claim like that of another namespace."""

    TEXT = "create claim {claim} here as it is in namespace {copied_from}: claims are of one namespace"

    claim: str
    copied_from: str


class CopyTemplate(Suggestion, frozen=True, tag="help-copy-template"):
    """A template like that of another namespace."""

    TEXT = "create template {template} here as it is in namespace {copied_from}: templates are of one namespace"

    template: str
    copied_from: str


class ClaimMissing(Cause, frozen=True, tag="ClaimMissing"):
    """The claim that a pod names does not exist.

    claim: its name
    similar: a claim of the namespace that has a similar name
    other_kind: the kind of an object that does have this name: ResourceClaimTemplate
    """

    TEXT = 'its resourceclaim "{claim}" does not exist{meant}{other}'
    HELPS = (UseClaim, AsTemplate, CopyClaim)

    claim: str
    similar: str = ""
    other_kind: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar), "other": of_other_kind(self.other_kind)}


class TemplateMissing(Cause, frozen=True, tag="TemplateMissing"):
    """The claim template that a pod or its group names does not exist.

    template: its name
    similar: a template of the namespace that has a similar name
    other_kind: the kind of an object that does have this name: ResourceClaim
    """

    TEXT = 'its resourceclaimtemplate "{template}" does not exist{meant}{other}'
    HELPS = (UseTemplate, AsClaim, CopyTemplate)

    template: str
    similar: str = ""
    other_kind: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar), "other": of_other_kind(self.other_kind)}


def of_other_kind(kind: str) -> str:
    """That a name is one of an object of another kind."""
    return say(CausePhrase.OF_OTHER_KIND, kind=kind) if kind else ""
