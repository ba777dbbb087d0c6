"""Why the pods of a PodGroup wait, as data. Left out: words (`wording`), and why a single pod fits nowhere (`nodes`)."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class GroupCode(StrEnum):
    """What keeps a group from its nodes. The first two keep its pods from being tried at all."""

    GROUP_UNKNOWN = "group-unknown"
    BELOW_MIN_COUNT = "below-min-count"
    SCHEDULER_NAMES = "scheduler-names"
    PRIORITIES = "priorities"
    POLICIES = "policies"
    GROUP_POLICY = "group-policy"
    MIN_COUNT_UNREACHED = "min-count-unreached"
    NO_PLACEMENT = "no-placement"  # of several domains; `first` is what the first of them lacked


WAITING = frozenset({GroupCode.GROUP_UNKNOWN, GroupCode.BELOW_MIN_COUNT})
WRONG = frozenset({GroupCode.SCHEDULER_NAMES, GroupCode.PRIORITIES, GroupCode.POLICIES, GroupCode.GROUP_POLICY})


class Proof(StrEnum):
    """How sure it is that the whole group fits nowhere."""

    PROVEN = "proven"
    UNPROVEN = "unproven"


class GroupProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a group is not placed.

    `wanted` is its minCount, `found` the pods that have a node or could have one, `left` those not tried any more.
    `one` and `other` are two values that must not differ. `domains` were tried, of which `first` is about the first.
    `domain` is where the group came closest. `pod` is the one that found no place there.
    """

    code: GroupCode
    group: str
    wanted: int = 0
    found: int = 0
    left: int = 0
    one: str = ""
    other: str = ""
    domains: int = 0
    domain: str = ""
    pod: str = ""
    proof: Proof | None = None
    first: GroupProblem | None = None
