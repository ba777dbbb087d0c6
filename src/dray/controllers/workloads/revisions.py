"""Assigns ReplicaSets to versions of a Deployment's template: hashes, names, revision numbers, annotations.

The hash is dray's own (a digest of the template), so names differ from those that Kubernetes would give. Which
template a ReplicaSet belongs to is always decided by comparing templates. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.api.names import GENERATED_ALPHABET
from dray.api.types.apps import Deployment, ReplicaSet
from dray.api.types.core import PodTemplateSpec
from dray.api.wire import Tree, tree_of
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.pods import creation_time

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
# Annotations of a Deployment that its ReplicaSets do not take over.
_NOT_INHERITED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
_HASH_LENGTH = 10


class Sets(NamedTuple):
    """The ReplicaSets of a Deployment: that of the current template or None, and the others, oldest first."""

    new: ReplicaSet | None
    old: Sequence[ReplicaSet]

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]


def template_hash(template: PodTemplateSpec, collisions: int) -> str:
    """Return a hash of the template and the count of name collisions.

    `collisions` is that count; 0 does not change the hash.
    """
    text = msgspec.json.encode(template, order="sorted") + (str(collisions).encode() if collisions else b"")
    return "".join(
        GENERATED_ALPHABET[byte % len(GENERATED_ALPHABET)] for byte in hashlib.sha256(text).digest()[:_HASH_LENGTH]
    )


def same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether two templates are equal except for the hash label."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    labels = {name: value for name, value in template.metadata.labels.items() if name != HASH_LABEL}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def sort_sets(deployment: Deployment, sets: Iterable[ReplicaSet]) -> Sets:
    """Return the ReplicaSet of the current template (if several match, the oldest) and all others.

    The first is None if no ReplicaSet has the current template. The others are sorted by age, the oldest first.
    """
    ordered = sorted(sets, key=lambda one: (creation_time(one), one.metadata.name))
    new = next((one for one in ordered if same_template(one.spec.template, deployment.spec.template)), None)
    return Sets(new, [one for one in ordered if one is not new])


def revision_of(replica_set: ReplicaSet) -> int:
    return annotated(replica_set, REVISION) or 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max(map(revision_of, old), default=0) + 1


def inherited_annotations(deployment: Deployment, new: ReplicaSet | None, revision: int) -> dict[str, str]:
    """Return the annotations that the current template's ReplicaSet takes from the Deployment, and its revision.

    A ReplicaSet that is used again (a rollback) gets the newest revision and keeps its former ones as history.
    """
    annotations = {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_INHERITED}
    current = revision_of(new) if new is not None else 0
    annotations[REVISION] = str(max(current, revision))
    if new is not None and 0 < current < revision:
        history = new.metadata.annotations.get(REVISION_HISTORY, "")
        annotations[REVISION_HISTORY] = f"{history},{current}" if history else str(current)
    return annotations


def size_annotations(desired: int, maximum: int) -> dict[str, str]:
    """Return the annotations that record the Deployment's size, for later proportional scaling.

    `maximum` is the number of pods allowed during a rollout. `desired` is the number of pods that the Deployment
    wants.
    """
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(maximum)}


def annotated(replica_set: ReplicaSet, name: str) -> int | None:
    text = replica_set.metadata.annotations.get(name, "")
    return int(text) if text.isdigit() else None


def set_name(deployment: Deployment) -> str:
    return f"{deployment.metadata.name}-{current_hash(deployment)}"


def current_hash(deployment: Deployment) -> str:
    return template_hash(deployment.spec.template, deployment.status.collisionCount or 0)


def set_tree(deployment: Deployment, replicas: int, annotations: dict[str, str]) -> Tree:
    """Return the ReplicaSet to create for the current template.

    `replicas` is its size, `annotations` are the set's annotations.
    """
    spec, hash_label = deployment.spec, {HASH_LABEL: current_hash(deployment)}
    template = tree_of(_without_hash(spec.template))
    labels = {**spec.template.metadata.labels, **hash_label}
    template["metadata"] = {**template.get("metadata", {}), "labels": labels}
    selector = tree_of(spec.selector) if spec.selector is not None else {}
    selector["matchLabels"] = {**selector.get("matchLabels", {}), **hash_label}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": set_name(deployment),
            "namespace": deployment.metadata.namespace,
            "labels": dict(labels),
            "annotations": annotations,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.minReadySeconds,
            "selector": selector,
            "template": template,
        },
    }


def superfluous(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the old, idle ReplicaSets beyond the history limit, those with the lowest revisions.

    Returns nothing without a limit. Sets that are being deleted do not count.
    """
    limit = deployment.spec.revisionHistoryLimit
    alive = [one for one in old if one.metadata.deletionTimestamp is None]
    if limit is None or len(alive) <= limit:
        return []
    lowest = sorted(alive, key=lambda one: (revision_of(one), creation_time(one)))[: len(alive) - limit]
    return [one for one in lowest if _idle(one)]


def _idle(one: ReplicaSet) -> bool:
    return (
        not one.spec.replicas and not one.status.replicas and one.metadata.generation <= one.status.observedGeneration
    )
