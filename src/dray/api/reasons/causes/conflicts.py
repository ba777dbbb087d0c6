"""Causes: requests cannot be satisfied together, or none of a request's alternatives can be satisfied."""

from __future__ import annotations

import msgspec

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import claim_named
from dray.api.reasons.causes import base
from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.causes.taken import EndPods
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class LeaveClaim(Suggestion, frozen=True, tag="help-split"):
    """Remove one of several competing claims from the pod and use it in another pod."""

    TEXT = "leave claim {claim} to another pod"

    where: str
    claim: str


class RequestsConflict(Cause, frozen=True, tag="Conflict"):
    """Several requests of the pod compete for the same devices.

    requests: the requests, each with its claim
    needed: number of devices that the requests need together
    available: number of devices on one node that satisfy the requests
    spare_claim: the claim that could be moved to another pod, if the requests are in several claims
    """

    TEXT = "requests {names} cannot be served together on one node: {how}"
    PHRASES = {
        "compete": "they need {needed} devices and compete for {available}",
        "apart": "each could be served without the others",
        "alone": "request {names} cannot be served within its constraints",
    }
    HELPS = (LeaveClaim, EndPods)

    requests: tuple[str, ...]
    needed: int
    available: int
    spare_claim: str = ""

    def phrase(self) -> str:
        return "alone" if len(self.requests) == 1 else ""

    def words(self) -> dict[str, str]:
        how = self.say(
            "compete" if self.available < self.needed else "apart", needed=self.needed, available=self.available
        )
        return {"names": say(CausePhrase.AND_NAME).join(self.requests), "how": how}


class NoCombination(Cause, frozen=True, tag="NoCombination"):
    """Enough devices exist for each request, but no selection of devices satisfies all requests together.

    requests: the requests, each with its claim
    node: the node that came closest
    spare_claim: the claim that could be moved to another pod, if the requests are in several claims
    """

    TEXT = "each request finds enough devices on {node}, but no choice of devices serves all of them at once: {names}"
    PHRASES = {"alone": "request {names} cannot be served within its constraints"}
    HELPS = (LeaveClaim, EndPods)

    requests: tuple[str, ...]
    node: str
    spare_claim: str = ""

    def phrase(self) -> str:
        return "alone" if len(self.requests) == 1 else ""

    def words(self) -> dict[str, str]:
        return {"names": named(self.requests)}


class ShortAlternative(msgspec.Struct, frozen=True):
    """One alternative of a request, and why it cannot be satisfied."""

    alternative: str
    cause: base.AnyCause


class AlternativesShort(Cause, frozen=True, tag="AlternativesShort"):
    """None of the alternatives of a request can be satisfied.

    claim: the claim
    request: the request
    alternatives: the alternatives of the request, each with the cause why it cannot be satisfied
    template: the template from which the claim was created, if any
    """

    TEXT = "none of the {count} alternatives of request {request} of {whose} can be served: {each}"
    PHRASES = {"each": "{name}: {why}"}

    claim: str
    request: str
    alternatives: tuple[ShortAlternative, ...]
    template: str = ""

    def words(self) -> dict[str, object]:
        each = [self.say("each", name=one.alternative, why=one.cause.detail) for one in self.alternatives]
        return {"count": len(each), "each": "; ".join(each), "whose": claim_named(self.claim, self.template)}
