"""Causes: a claim exists, but the pod cannot use it or cannot reach its devices."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import refusals
from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.causes.node_rules import NODE_HELPS
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class OwnClaim(Suggestion, frozen=True, tag="help-own-claim"):
    """Create a separate claim for the pod, like the one that it cannot use."""

    TEXT = "a claim of its own, {new}, instead of {old} for {where}"

    where: str
    old: str
    new: str


class MakeClaimAnew(Suggestion, frozen=True, tag="help-make-claim-anew"):
    """Delete a claim that was not created for the pod, so that the controller creates the right one."""

    TEXT = "delete claim {claim}, so that it is created again"

    claim: str


class ClaimAgain(Suggestion, frozen=True, tag="help-claim-again"):
    """End the pods that use a claim being deleted, and create the claim again."""

    TEXT = "end {pods}, and create claim {claim} again"

    claim: str
    pods: tuple[str, ...]


class ClaimDeleting(Cause, frozen=True, tag="ClaimDeleting"):
    """A claim of the pod is being deleted.

    claim: name of the claim
    users: the other pods that still use the claim
    """

    TEXT = 'resourceclaim "{claim}" is being deleted{used}'
    PHRASES = {"used": ", used by {names}"}
    HELPS = (ClaimAgain,)

    claim: str
    users: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        return {"used": self.say("used", names=", ".join(self.users)) if self.users else ""}


class ClaimFull(Cause, frozen=True, tag="ClaimFull"):
    """The claim already has the maximum number of consumers.

    claim: name of the claim
    most: maximum number of consumers of a claim
    """

    TEXT = 'resourceclaim "{claim}" is in use by {most} consumers, and no more can be added'
    HELPS = (OwnClaim,)

    claim: str
    most: int


class ForeignClaim(Cause, frozen=True, tag="ForeignClaim"):
    """A claim with the name needed for the pod exists, but was not created for the pod.

    claim: name of the claim
    """

    TEXT = 'resourceclaim "{claim}" was not created for it'
    HELPS = (MakeClaimAnew,)

    claim: str


class ClaimElsewhere(Cause, frozen=True, tag="ClaimElsewhere"):
    """A claim of the pod is allocated on nodes where the pod cannot run.

    claim: the claim
    nodes: the nodes from which the claim's devices can be reached
    refused: why these nodes refuse the pod, with the number of nodes
    users: the other pods that use the claim
    """

    TEXT = 'claim "{claim}" is allocated on {names}, where it may not run: {why}'
    HELPS = (*NODE_HELPS, OwnClaim)

    claim: str
    nodes: tuple[str, ...]
    refused: tuple[tuple[NodeReason, int], ...] = ()
    users: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        why = refusals(self.refused) or say(CausePhrase.OTHER_CLAIMS)
        return {"names": named(self.nodes), "why": why}


class ClaimOutOfReach(Cause, frozen=True, tag="ClaimOutOfReach"):
    """No node can reach the devices of a claim of the pod.

    claim: the claim
    users: the other pods that use the claim
    """

    TEXT = 'claim "{claim}" is allocated where no node can reach it'
    HELPS = (OwnClaim,)

    claim: str
    users: tuple[str, ...] = ()


class ClaimsApart(Cause, frozen=True, tag="ClaimsApart"):
    """The claims of the pod are allocated on different nodes.

    claims: the claims
    """

    TEXT = "claims {names} are allocated on different nodes, and no node can reach all of them"
    HELPS = (OwnClaim,)

    claims: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": say(CausePhrase.AND_NAME).join(self.claims)}


class ClaimLeftOver(Cause, frozen=True, tag="ClaimLeftOver"):
    """A claim from an earlier attempt to schedule the pod still exists.

    claim: the claim that was created for the pod's extended resources
    """

    TEXT = (
        "claim {claim}, created for its extended resources in an earlier attempt, still exists; "
        "the scheduler deletes it before the next attempt"
    )

    claim: str


class ClaimUnusable(Cause, frozen=True, tag="ClaimUnusable"):
    """The pod cannot use a claim for another reason.

    claim: the claim
    message: the reason
    """

    TEXT = "{message}"

    claim: str
    message: str
