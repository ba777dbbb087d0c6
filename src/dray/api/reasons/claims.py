"""Reasons why a pod cannot use a claim at the moment, as data.

`dray.api.claim_access` determines them; `wording` formats them as text.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ClaimCode(StrEnum):
    """Problem that keeps a pod from using one of its claims."""

    GROUP_MISSING = "group-missing"
    GROUP_LACKS_CLAIM = "group-lacks-claim"
    NOT_CREATED = "not-created"
    NOT_FOUND = "not-found"
    NOT_FOR_POD = "not-for-pod"
    NOT_FOR_GROUP = "not-for-group"
    DELETING = "deleting"
    BEING_ALLOCATED = "being-allocated"
    CLASS_MISSING = "class-missing"
    FULL = "full"
    NOT_ALLOCATED = "not-allocated"
    OUT_OF_REACH = "out-of-reach"
    NOT_RESERVED = "not-reserved"


class ClaimProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a pod cannot use a claim.

    `entry` is the name in the pod's resourceClaims, `claim` the name of the ResourceClaim. `subject` depends on
    the code: the claim that the group lacks, the missing device class, or the node from which the devices cannot
    be reached. `request` is the request that refers to the class; `limit` is the maximum number of consumers of a
    claim.
    """

    code: ClaimCode
    pod: str = ""
    pod_uid: str = ""
    entry: str = ""
    claim: str = ""
    claim_uid: str = ""
    group: str = ""
    subject: str = ""
    request: str = ""
    limit: int = 0
