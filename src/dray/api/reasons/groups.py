"""Reasons why the pods of a PodGroup wait, as data. `wording` formats them as text.

`nodes` has the reasons why a single pod fits nowhere.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class GroupCode(StrEnum):
    """Why a PodGroup is not placed. With the first two codes, its pods are not tried at all."""

    GROUP_UNKNOWN = "group-unknown"
    BELOW_MIN_COUNT = "below-min-count"
    SCHEDULER_NAMES = "scheduler-names"
    PRIORITIES = "priorities"
    POLICIES = "policies"
    GROUP_POLICY = "group-policy"
    MIN_COUNT_UNREACHED = "min-count-unreached"
    NO_PLACEMENT = "no-placement"  # none of several topology domains fits; `first` is the reason for the first domain


WAITING = frozenset({GroupCode.GROUP_UNKNOWN, GroupCode.BELOW_MIN_COUNT})
WRONG = frozenset({GroupCode.SCHEDULER_NAMES, GroupCode.PRIORITIES, GroupCode.POLICIES, GroupCode.GROUP_POLICY})


class Proof(StrEnum):
    """Whether it is certain that the whole group fits nowhere."""

    PROVEN = "proven"
    UNPROVEN = "unproven"


class GroupProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a PodGroup is not placed.

    `wanted` is its minCount, `found` the number of pods that have a node or could get one, `left` the number of
    pods that were not tried. `one` and `other` are two values that must be equal. `domains` is the number of
    topology domains tried; `first` is the reason for the first of them. `domain` is the domain that came closest;
    `pod` is the pod that did not fit there.
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
