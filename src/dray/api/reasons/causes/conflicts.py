"""Each request could be served alone, but not all of them together; or none of several alternatives."""

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
    """One of several claims that compete left to another pod."""

    TEXT = "leave claim {claim} to another pod"

    where: str
    claim: str


class RequestsConflict(Cause, frozen=True, tag="Conflict"):
    """Some requests of the pod want the same devices.

    requests: the requests, each with its claim
    needed: how many devices they need together
    available: how many devices of one node serve them
    spare_claim: the claim that could be left to another pod, where they are of several claims
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
    """Each request finds enough devices, but no choice of devices serves all of them.

    requests: the requests, each with its claim
    node: the node that came closest
    spare_claim: the claim that could be left to another pod, where the requests are of several claims
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
    """One of the alternatives of a request, and why it cannot be served."""

    alternative: str
    cause: base.AnyCause


class AlternativesShort(Cause, frozen=True, tag="AlternativesShort"):
    """None of the alternatives of a request can be served.

    claim: the claim
    request: the request
    alternatives: its alternatives, each with why it cannot be served
    template: the template of the claim, where it was made from one
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
