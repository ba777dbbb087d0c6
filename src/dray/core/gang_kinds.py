"""Pods of a gang grouped by their requirements: pods of one kind are interchangeable. Left out: the pods' nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Attempt
from dray.verdicts.nodes import required_anti_affinity

NodeLoad = tuple[int, ...]  # number of pods of each kind on a node


@dataclass(slots=True)
class GangPodKind:
    """Pods of a gang with equal requirements.

    `shared` holds the uids of their pending claims that other pods also use.
    """

    shared: frozenset[str]
    names_nodes: bool  # whether the pods' rules depend on labels or names of nodes
    pods: list[Pod] = field(default_factory=list)


def pods_of(kinds: Sequence[GangPodKind], load: NodeLoad, left: NodeLoad) -> list[Pod]:
    """Return the pods of a load. From each kind, the first of the pods that are still left are taken.

    `load` and `left` contain a number of pods for each kind.
    """
    found: list[Pod] = []
    for kind, count, rest in zip(kinds, load, left, strict=True):
        start = len(kind.pods) - rest
        found += kind.pods[start : start + count]
    return found


def shared_claims(attempts: Sequence[Attempt]) -> Mapping[str, ResourceClaim]:
    """Return by uid the pending claims that several of the pods use or that come from the PodGroup.

    Claims of the PodGroup come first.
    """
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
    """Group the pods of the attempts by equal requirements. Returns the kinds in order of first appearance."""
    found: dict[bytes, GangPodKind] = {}
    for attempt in attempts:
        key = _signature(attempt, shared)
        if key not in found:
            common = frozenset(c.metadata.uid for c in attempt.claims.pending if c.metadata.uid in shared)
            found[key] = GangPodKind(common, _names_nodes(attempt) or bool(common))
        found[key].pods.append(attempt.pod)
    return [*found.values()]


def minds_others(pod: Pod) -> bool:
    """Whether a pod has required affinity or anti-affinity to other pods, or a required topology spread constraint."""
    affinity, spread = pod.spec.affinity, pod.spec.topologySpreadConstraints
    near = affinity.podAffinity if affinity is not None else None
    is_near = near is not None and bool(near.requiredDuringSchedulingIgnoredDuringExecution)
    return is_near or bool(required_anti_affinity(pod)) or any(c.whenUnsatisfiable == "DoNotSchedule" for c in spread)


def _names_nodes(attempt: Attempt) -> bool:
    """Whether a pod selects nodes by labels or has any affinity, also to pods, or has an allocated claim."""
    spec = attempt.pod.spec
    return bool(spec.nodeSelector or spec.affinity or attempt.claims.allocated)


def _signature(attempt: Attempt, shared: Mapping[str, ResourceClaim]) -> bytes:
    """Return a key that is equal for pods with the same requirements on nodes and devices, and the same labels."""
    spec, demand, claims = attempt.pod.spec, attempt.candidate.demand, attempt.claims
    asked = [c.metadata.uid if c.metadata.uid in shared else c.spec.devices for c in claims.pending]
    rules = spec.nodeSelector, spec.affinity, spec.tolerations, spec.topologySpreadConstraints
    needs = [one.resources for one in (*spec.containers, *spec.initContainers)]
    labels = attempt.pod.metadata.labels
    known = [claim.metadata.uid for claim in claims.allocated]
    return msgspec.json.encode((rules, needs, demand.signature, sorted(map(str, demand.ports)), labels, asked, known))
