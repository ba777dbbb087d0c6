"""Suggestions for a cause: which modules offer changes, and which of the changes pass a trial.

A trial applies the changes to the snapshot and checks with the scheduler's rules and search whether the pod can then
be placed. So a change that passes also works in the cluster, unless other pods take the devices first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from dray.api.reasons.causes.amounts import CapacityExhausted, CapacityTooLarge, CountersExhausted
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.claim_missing import ClaimMissing, TemplateMissing
from dray.api.reasons.causes.claim_use import (
    ClaimDeleting,
    ClaimElsewhere,
    ClaimFull,
    ClaimOutOfReach,
    ClaimsApart,
    ForeignClaim,
)
from dray.api.reasons.causes.class_missing import ClassMissing
from dray.api.reasons.causes.conflicts import NoCombination, RequestsConflict
from dray.api.reasons.causes.constraints import ConstraintAttribute, ConstraintOfAll, ConstraintUnmet
from dray.api.reasons.causes.extended_resource import NoSuchResource
from dray.api.reasons.causes.node_rules import NodeRules
from dray.api.reasons.causes.not_created import QuotaExceeded
from dray.api.reasons.causes.on_node import ClaimNotAllocated, NodeDead, NodeMissing
from dray.api.reasons.causes.pod_groups import GangIncomplete, GroupClaimMissing, GroupMissing
from dray.api.reasons.causes.pools import IncompletePool, InvalidPool
from dray.api.reasons.causes.scheduling import NoScheduler, SchedulingGated
from dray.api.reasons.causes.selectors import ClassMatchesNothing, NoMatch, SelectorFails, UnknownAttribute
from dray.api.reasons.causes.tainted import DevicesTainted
from dray.api.reasons.causes.taken import AllTaken, Fragmented, MovePods, NotAllFree, UsePriority
from dray.api.reasons.causes.too_few import MoreDevices, TooFewDevices, TooManyDevices
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.suggestions import Suggestion
from dray.api.types.core import Pod
from dray.cel import Interrupted
from dray.inspect.changes import applied
from dray.inspect.placement import Allowance
from dray.inspect.pods import PodCase
from dray.inspect.snapshot import CLUSTER_WIDE, Snapshot
from dray.inspect.suggesting import devices, moves, names, nodes, requests
from dray.inspect.suggesting.subject import WaitingPod, causes_in

MOST = 4  # maximum number of suggestions
_SIMULATED = (MovePods, UsePriority)  # already tried in a simulated cluster when offered
_TRIALS = 12  # changes tried per offering function
_LOOKED_AT = 100  # changes considered per offering function
_NEEDED = frozenset(CLUSTER_WIDE)  # without permission to read all of these, a trial is impossible

Offer = Callable[[WaitingPod, Any], Iterator[Suggestion]]

OFFERS: Mapping[type[Cause], Sequence[Offer]] = {
    ClaimMissing: (names.claim_missing,),
    TemplateMissing: (names.template_missing,),
    ClassMissing: (names.class_missing,),
    GroupMissing: (names.group_missing,),
    GroupClaimMissing: (names.group_claim_missing,),
    NoSuchResource: (names.resource_unknown,),
    QuotaExceeded: (names.claim_quota,),
    ClaimDeleting: (names.claim_deleting,),
    ClaimFull: (names.own_claim,),
    ForeignClaim: (names.claim_foreign,),
    ClaimElsewhere: (nodes.node_rules, names.own_claim),
    ClaimOutOfReach: (names.own_claim,),
    ClaimsApart: (names.own_claims,),
    SelectorFails: (requests.selector_fails,),
    UnknownAttribute: (requests.selector,),
    NoMatch: (requests.selector,),
    ClassMatchesNothing: (requests.class_matches_nothing,),
    TooFewDevices: (requests.fewer, requests.alternative, devices.more),
    NotAllFree: (
        moves.move_pods,
        devices.end_pods,
        requests.not_all,
        requests.alternative,
        moves.use_priority,
        devices.more,
    ),
    AllTaken: (
        moves.move_pods,
        devices.end_pods,
        requests.fewer,
        requests.tolerate,
        devices.untaint,
        requests.alternative,
        moves.use_priority,
        devices.more,
    ),
    Fragmented: (
        moves.move_pods,
        devices.end_pods,
        requests.fewer,
        requests.alternative,
        moves.use_priority,
        devices.more,
    ),
    CapacityTooLarge: (requests.less_capacity,),
    CapacityExhausted: (requests.less_capacity, moves.move_pods, devices.end_pods, moves.use_priority, devices.more),
    CountersExhausted: (moves.move_pods, devices.end_pods, moves.use_priority),
    DevicesTainted: (requests.tolerate, devices.untaint),
    IncompletePool: (devices.pool_again,),
    InvalidPool: (devices.pool_again,),
    ConstraintUnmet: (moves.move_pods, devices.end_pods, requests.constraint, moves.use_priority, devices.more),
    ConstraintAttribute: (requests.constraint,),
    ConstraintOfAll: (requests.constraint,),
    RequestsConflict: (requests.other_pod, devices.end_pods),
    NoCombination: (requests.other_pod, devices.end_pods),
    TooManyDevices: (requests.too_many,),
    NodeRules: (nodes.node_rules,),
    SchedulingGated: (nodes.gated,),
    GangIncomplete: (names.gang_incomplete,),
    NoScheduler: (nodes.no_scheduler,),
    ClaimNotAllocated: (nodes.by_scheduler,),
    NodeMissing: (nodes.pod_again,),
    NodeDead: (nodes.pod_again,),
}


def suggestions(
    snapshot: Snapshot, pod: Pod, cause: Cause, verdicts: tuple[NodeVerdict, ...], allowance: Allowance
) -> tuple[Suggestion, ...]:
    """Return tested suggestions for a waiting pod; empty if relevant objects cannot be read or time runs out."""
    if snapshot.unreadable & _NEEDED or snapshot.hides_use:
        return ()
    subject = WaitingPod(snapshot, pod, verdicts, allowance.cluster)
    found: dict[type[Suggestion], Suggestion] = {}
    try:
        for one in causes_in(cause):
            for offer in OFFERS.get(type(one), ()):
                _try(subject, islice(offer(subject, one), _LOOKED_AT), found, allowance)
    except Interrupted:
        pass
    return tuple(sorted(found.values(), key=lambda one: isinstance(one, MoreDevices)))  # new hardware is suggested last


def _try(
    subject: WaitingPod,
    offers: Iterable[Suggestion],
    found: dict[type[Suggestion], Suggestion],
    allowance: Allowance,
) -> None:
    """Add the first working suggestion of each type to `found`. Types already found are not tried again.

    Stops when enough suggestions are found, enough were tried or the allowance is used up.
    """
    trials = 0
    for offer in offers:
        if len(found) == MOST or trials == _TRIALS or _is_over(allowance):
            return
        if offer.changes and type(offer) not in found:
            trials += 1
            if isinstance(offer, _SIMULATED) or helps(subject, offer, allowance):
                found[type(offer)] = offer


def helps(subject: WaitingPod, offer: Suggestion, allowance: Allowance) -> bool:
    """Whether the pod, together with its gang if it has one, can be placed after the changes of a suggestion."""
    after = applied(subject.snapshot, offer.changes)
    pod = after.get(Pod, subject.name, subject.namespace)
    return pod is not None and PodCase(after, pod, allowance.trial()).fits()


def _is_over(allowance: Allowance) -> bool:
    """Whether the steps of the allowance are used up."""
    return allowance.cluster.is_out
