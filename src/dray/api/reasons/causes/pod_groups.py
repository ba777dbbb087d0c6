"""Causes: the PodGroup of a pod does not exist, lacks a claim or pods, or cannot be placed as a whole."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class CreateGroup(Suggestion, frozen=True, tag="help-create-group"):
    """Create the PodGroup with minimal content."""

    TEXT = "create PodGroup {group}"

    group: str


class UseGroupClaim(Suggestion, frozen=True, tag="help-group-claim"):
    """Refer to an existing claim of the PodGroup."""

    TEXT = "name claim {new} of the group instead of {old} in {where}"

    where: str
    old: str
    new: str


class MoreMembers(Suggestion, frozen=True, tag="help-more-members"):
    """Create the pods that the gang lacks."""

    TEXT = "{pods} more pods of podgroup {group}"
    PHRASES = {"one": "{pods} more pod of podgroup {group}"}

    group: str
    pods: int

    def phrase(self) -> str:
        return "one" if self.pods == 1 else ""


class GroupMissing(Cause, frozen=True, tag="GroupMissing"):
    """The PodGroup of the pod does not exist.

    group: name of the PodGroup
    similar: a PodGroup in the namespace with a similar name
    """

    TEXT = 'its podgroup "{group}" does not exist{meant}'
    HELPS = (CreateGroup,)

    group: str
    similar: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar)}


class GroupClaimMissing(Cause, frozen=True, tag="GroupClaimMissing"):
    """The pod refers to a claim that its PodGroup does not have.

    entry: the entry in the pod's resourceClaims
    claim: name of the claim that the PodGroup lacks
    group: the PodGroup
    """

    TEXT = 'entry {entry} names claim "{claim}" of podgroup "{group}", which has no such claim'
    HELPS = (UseGroupClaim,)

    entry: str
    claim: str
    group: str


class GangIncomplete(Cause, frozen=True, tag="GangIncomplete"):
    """The gang has fewer pods than it needs to be scheduled.

    group: the PodGroup
    pods: number of existing pods of the PodGroup
    min_count: minimum number of pods
    """

    TEXT = 'podgroup "{group}" waits for {min_count} pods, and {pods} exist'
    HELPS = (MoreMembers,)

    group: str
    pods: int
    min_count: int


class GangUnplaced(Cause, frozen=True, tag="GangUnplaced"):
    """Each pod of the gang fits alone, but fewer pods than the gang needs fit together.

    group: the PodGroup
    placed: number of pods that fit together
    min_count: minimum number of pods
    message: the message from the scheduler
    """

    TEXT = 'podgroup "{group}" has no place for {min_count} pods at once: {message}'

    group: str
    placed: int
    min_count: int
    message: str
