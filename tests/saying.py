"""What pods are told, in the words of `dray.api.reasons.wording`, whichever those are: tests of behaviour know codes."""

from __future__ import annotations

from enum import StrEnum
from string import Formatter

from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.wording import TEXTS, Phrase, say
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim


def words_of(code: StrEnum) -> str:
    """The longest part of a text that is the same whatever it is about."""
    return max((part for part, *_ in Formatter().parse(TEXTS[code])), key=len).strip()


def refused(code: StrEnum, nodes: int = 1, **subjects: object) -> str:
    """The part of a condition that says why a rule refuses so many nodes."""
    return say(Phrase.SOME_NODES, count=nodes, why=say(code, **subjects))


def beginning(nodes: int) -> str:
    """How the condition of a pod begins that so many nodes refuse."""
    return say(Phrase.ALL_NODES, nodes=nodes, why="\0").partition("\0")[0]


def not_reserved(pod: Pod, claim: ResourceClaim) -> str:
    """What a node says of a pod that a claim does not list."""
    subjects = {"pod": pod.metadata.name, "pod_uid": pod.metadata.uid}
    return say(ClaimCode.NOT_RESERVED, claim=claim.metadata.name, claim_uid=claim.metadata.uid, **subjects)
