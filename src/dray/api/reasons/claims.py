"""Why a pod may not use a claim, here and now, as data.

Left out: finding it out (`dray.api.claim_access`), words (`wording`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ClaimCode(StrEnum):
    """What stands between a pod and one of its claims."""

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
    """Why a pod may not use a claim.

    `entry` is that of the pod's spec, `claim` the name that it leads to. `subject` is what the code is about: the claim
    that the group lacks, the device class that does not exist, the node that is out of reach. `request` names the
    request of the class, `limit` how many consumers a claim can have.
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
