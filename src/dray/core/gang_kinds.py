"""The pods of a gang by what they ask for: pods of one kind can stand in for each other. Left out: where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Attempt
from dray.verdicts.nodes import required_anti_affinity

NodeLoad = tuple[int, ...]  # how many pods of each kind


@dataclass(slots=True)
class GangPodKind:
    """Pods that ask for the same. `shared` are the uids of pending claims that they have in common with others."""

    shared: frozenset[str]
    names_nodes: bool  # whether they tell nodes apart by labels or names
    pods: list[Pod] = field(default_factory=list)


def pods_of(kinds: Sequence[GangPodKind], load: NodeLoad, left: NodeLoad) -> list[Pod]:
    """The pods of a load: of each kind the first of those that are left."""
    found: list[Pod] = []
    for kind, count, rest in zip(kinds, load, left, strict=True):
        start = len(kind.pods) - rest
        found += kind.pods[start : start + count]
    return found


def shared_claims(attempts: Sequence[Attempt]) -> Mapping[str, ResourceClaim]:
    """The pending claims that several of the pods use, by uid; those of the group first."""
    users: dict[str, int] = {}
    claims: dict[str, ResourceClaim] = {}
    groups: set[str] = set()
    for attempt in attempts:
        for claim in attempt.claims.pending:
            claims[claim.metadata.uid] = claim
            users[claim.metadata.uid] = users.get(claim.metadata.uid, 0) + 1
        groups |= {use.claim.metadata.uid for use in attempt.claims.uses if use.by_group}
    shared = [uid for uid in claims if users[uid] > 1 or uid in groups]
    return {uid: claims[uid] for uid in sorted(shared, key=lambda uid: uid not in groups)}


def kinds_of(attempts: Sequence[Attempt], shared: Mapping[str, ResourceClaim]) -> list[GangPodKind]:
    """The kinds of pods, in the order in which each came first."""
    found: dict[bytes, GangPodKind] = {}
    for attempt in attempts:
        key = _signature(attempt, shared)
        if key not in found:
            common = frozenset(c.metadata.uid for c in attempt.claims.pending if c.metadata.uid in shared)
            found[key] = GangPodKind(common, _names_nodes(attempt) or bool(common))
        found[key].pods.append(attempt.pod)
    return [*found.values()]


def minds_others(pod: Pod) -> bool:
    """Whether a pod has rules about the pods beside it."""
    affinity, spread = pod.spec.affinity, pod.spec.topologySpreadConstraints
    near = affinity.podAffinity if affinity is not None else None
    is_near = near is not None and bool(near.requiredDuringSchedulingIgnoredDuringExecution)
    return is_near or bool(required_anti_affinity(pod)) or any(c.whenUnsatisfiable == "DoNotSchedule" for c in spread)


def _names_nodes(attempt: Attempt) -> bool:
    spec = attempt.pod.spec
    return bool(spec.nodeSelector or spec.affinity or attempt.claims.allocated)


def _signature(attempt: Attempt, shared: Mapping[str, ResourceClaim]) -> bytes:
    """What a pod asks of its node, and of devices."""
    spec, demand, claims = attempt.pod.spec, attempt.candidate.demand, attempt.claims
    asked = [c.metadata.uid if c.metadata.uid in shared else c.spec.devices for c in claims.pending]
    rules = spec.nodeSelector, spec.affinity, spec.tolerations, spec.topologySpreadConstraints
    needs = [one.resources for one in (*spec.containers, *spec.initContainers)]
    labels = attempt.pod.metadata.labels
    known = [claim.metadata.uid for claim in claims.allocated]
    return msgspec.json.encode((rules, needs, demand.signature, sorted(map(str, demand.ports)), labels, asked, known))
