"""The PodGroup of a pod: that it does not exist, lacks a claim or pods, or finds no place as a whole."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class CreateGroup(Suggestion, frozen=True, tag="help-create-group"):
    """The group, as simple as it can be."""

    TEXT = "create PodGroup {group}"

    group: str


class UseGroupClaim(Suggestion, frozen=True, tag="help-group-claim"):
    """A claim that the group has."""

    TEXT = "name claim {new} of the group instead of {old} in {where}"

    where: str
    old: str
    new: str


class MoreMembers(Suggestion, frozen=True, tag="help-more-members"):
    """The pods that a gang lacks."""

    TEXT = "{pods} more pods of podgroup {group}"
    PHRASES = {"one": "{pods} more pod of podgroup {group}"}

    group: str
    pods: int

    def phrase(self) -> str:
        return "one" if self.pods == 1 else ""


class GroupMissing(Cause, frozen=True, tag="GroupMissing"):
    """The PodGroup of the pod does not exist.

    group: its name
    similar: a group of the namespace that has a similar name
    """

    TEXT = 'its podgroup "{group}" does not exist{meant}'
    HELPS = (CreateGroup,)

    group: str
    similar: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar)}


class GroupClaimMissing(Cause, frozen=True, tag="GroupClaimMissing"):
    """The pod uses a claim of its group that the group does not have.

    entry: the entry of the pod's resourceClaims
    claim: the claim of the group that it names
    group: the group
    """

    TEXT = 'entry {entry} names claim "{claim}" of podgroup "{group}", which has no such claim'
    HELPS = (UseGroupClaim,)

    entry: str
    claim: str
    group: str


class GangIncomplete(Cause, frozen=True, tag="GangIncomplete"):
    """The gang is not scheduled before it has as many pods as it needs.

    group: the PodGroup
    pods: how many pods it has
    min_count: how many it needs at least
    """

    TEXT = 'podgroup "{group}" waits for {min_count} pods, and {pods} exist'
    HELPS = (MoreMembers,)

    group: str
    pods: int
    min_count: int


class GangUnplaced(Cause, frozen=True, tag="GangUnplaced"):
    """Each pod of the gang fits alone, but not as many at once as the gang needs.

    group: the PodGroup
    placed: how many pods found a place at once
    min_count: how many have to
    message: what the scheduler says of it
    """

    TEXT = 'podgroup "{group}" has no place for {min_count} pods at once: {message}'

    group: str
    placed: int
    min_count: int
    message: str
