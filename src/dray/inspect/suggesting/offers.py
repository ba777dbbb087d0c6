"""From a cause to what would help: which module offers changes, and which of them pass a trial.

A trial applies the changes to the snapshot and asks whether the pod has a place then. It stands for the scheduler,
whose rules and search it runs; so what passes here happens there, unless somebody else is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from dray.api.reasons.causes import Cause, CauseCode
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.suggestions import Suggestion, SuggestionCode
from dray.api.types.core import Pod
from dray.cel import Interrupted
from dray.inspect.changes import applied
from dray.inspect.placement import Allowance
from dray.inspect.pods import PodCase
from dray.inspect.snapshot import CLUSTER_WIDE, Snapshot
from dray.inspect.suggesting import devices, names, nodes, requests
from dray.inspect.suggesting.subject import WaitingPod, causes_in

MOST = 3  # suggestions that are told
_TRIALS = 12  # changes that are tried of what one module offers
_LOOKED_AT = 100  # changes that it may offer
_NEEDED = frozenset(CLUSTER_WIDE)  # a user who may not read all of it knows too little for a trial

Offer = Callable[[WaitingPod, Cause], Iterator[Suggestion]]

OFFERS: Mapping[CauseCode, Sequence[Offer]] = {
    CauseCode.CLAIM_MISSING: (names.claim_missing,),
    CauseCode.TEMPLATE_MISSING: (names.template_missing,),
    CauseCode.CLASS_MISSING: (names.class_missing,),
    CauseCode.GROUP_MISSING: (names.group_missing,),
    CauseCode.GROUP_CLAIM_MISSING: (names.group_claim_missing,),
    CauseCode.RESOURCE_UNKNOWN: (names.resource_unknown,),
    CauseCode.QUOTA: (names.claim_quota,),
    CauseCode.CLAIM_DELETING: (names.claim_deleting,),
    CauseCode.CLAIM_FULL: (names.own_claim,),
    CauseCode.CLAIM_FOREIGN: (names.claim_foreign,),
    CauseCode.CLAIM_ELSEWHERE: (nodes.node_rules, names.own_claim),
    CauseCode.CLAIM_OUT_OF_REACH: (names.own_claim,),
    CauseCode.CLAIMS_APART: (names.own_claims,),
    CauseCode.SELECTOR_FAILS: (requests.selector_fails,),
    CauseCode.ATTRIBUTE_UNKNOWN: (requests.selector,),
    CauseCode.NO_MATCH: (requests.selector,),
    CauseCode.CLASS_MATCHES_NOTHING: (requests.class_matches_nothing,),
    CauseCode.TOO_FEW_DEVICES: (requests.fewer, devices.more),
    CauseCode.ALL_TAKEN: (
        devices.more,
        devices.end_pods,
        requests.not_all,
        requests.fewer,
        requests.tolerate,
        devices.untaint,
    ),
    CauseCode.FRAGMENTED: (devices.more, devices.end_pods, requests.fewer),
    CauseCode.CAPACITY_TOO_LARGE: (requests.less_capacity,),
    CauseCode.CAPACITY_EXHAUSTED: (requests.less_capacity, devices.end_pods, devices.more),
    CauseCode.COUNTERS_EXHAUSTED: (devices.end_pods,),
    CauseCode.TAINTED: (requests.tolerate, devices.untaint),
    CauseCode.POOL_INCOMPLETE: (devices.pool_again,),
    CauseCode.POOL_INVALID: (devices.pool_again,),
    CauseCode.CONSTRAINT: (devices.more, requests.constraint),
    CauseCode.CONSTRAINT_ATTRIBUTE: (requests.constraint,),
    CauseCode.CONSTRAINT_ALL: (requests.constraint,),
    CauseCode.CONFLICT: (requests.other_pod, devices.end_pods),
    CauseCode.NO_COMBINATION: (requests.other_pod, devices.end_pods),
    CauseCode.TOO_MANY_DEVICES: (requests.too_many,),
    CauseCode.NODE_RULES: (nodes.node_rules,),
    CauseCode.SCHEDULING_GATED: (nodes.gated,),
    CauseCode.GANG_INCOMPLETE: (names.gang_incomplete,),
    CauseCode.NO_SCHEDULER: (nodes.no_scheduler,),
    CauseCode.CLAIM_NOT_ALLOCATED: (nodes.by_scheduler,),
    CauseCode.NODE_MISSING: (nodes.pod_again,),
    CauseCode.NODE_DEAD: (nodes.pod_again,),
}


def suggestions(
    snapshot: Snapshot, pod: Pod, cause: Cause, verdicts: tuple[NodeVerdict, ...], allowance: Allowance
) -> tuple[Suggestion, ...]:
    """What would help a pod that waits, each tried; nothing where it cannot be known in time."""
    if snapshot.unreadable & _NEEDED or snapshot.hides_use:
        return ()
    subject = WaitingPod(snapshot, pod, verdicts, allowance.cluster)
    found: dict[SuggestionCode, Suggestion] = {}
    try:
        for one in causes_in(cause):
            for offer in OFFERS.get(one.code, ()):
                _try(subject, islice(offer(subject, one), _LOOKED_AT), found, allowance)
    except Interrupted:
        pass
    return tuple(found.values())


def _try(
    subject: WaitingPod,
    offers: Iterable[Suggestion],
    found: dict[SuggestionCode, Suggestion],
    allowance: Allowance,
) -> None:
    """Keep the first of each kind that helps; what is of a known kind is not tried."""
    trials = 0
    for offer in offers:
        if len(found) == MOST or trials == _TRIALS or _is_over(allowance):
            return
        if offer.changes and offer.code not in found:
            trials += 1
            if helps(subject, offer, allowance):
                found[offer.code] = offer


def helps(subject: WaitingPod, offer: Suggestion, allowance: Allowance) -> bool:
    """Whether the pod has a place once the changes are made."""
    after = applied(subject.snapshot, offer.changes)
    pod = after.get(Pod, subject.name, subject.namespace)
    return pod is not None and bool(PodCase(after, pod, allowance.trial()).places())


def _is_over(allowance: Allowance) -> bool:
    return allowance.cluster.is_out
