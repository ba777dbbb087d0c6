"""History of a StatefulSet's or DaemonSet's template as ControllerRevisions, for `kubectl rollout history` and
`undo`.

A revision holds the template as a patch. A template that existed before gets its old revision back with a new number.
Revisions beyond the history limit that no pod uses are deleted. Hashes and names are those that Kubernetes gives. The
first part is pure. Left out: which pods follow which revision.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api.errors import AlreadyExists, NotFound
from dray.api.names import GENERATED_ALPHABET
from dray.api.types.apps import ControllerRevision, DaemonSet, StatefulSet
from dray.api.types.core import PodTemplateSpec
from dray.api.wire import Tree, tree_of
from dray.client import Client, Informer
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.adoption import controlled, index_by_controller
from dray.controllers.workloads.writes import OwnWrites

HASH_LABEL = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619

RevisionOwner = StatefulSet | DaemonSet


class TemplateRevisions(NamedTuple):
    """The revision of the current template, and all earlier revisions, oldest first."""

    current: ControllerRevision
    older: Sequence[ControllerRevision]


def revision_data(template: PodTemplateSpec) -> Tree:
    """Return a template in the form of a patch that restores it."""
    return {"spec": {"template": {**tree_of(template), "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    tree = {name: value for name, value in revision.data["spec"]["template"].items() if name != "$patch"}
    return msgspec.convert(tree, PodTemplateSpec)


def revision_hash(data: Tree, collisions: int) -> str:
    """Return the hash of a revision's data and the count of name collisions.

    `collisions` is that count; 0 does not change the hash.
    """
    return spelled_hash(msgspec.json.encode(data) + (str(collisions).encode() if collisions else b""))


def spelled_hash(text: bytes) -> str:
    """Return the FNV-1 hash of bytes, spelt in letters that form no words."""
    value = _FNV_OFFSET
    for byte in text:
        value = value * _FNV_PRIME % 2**32 ^ byte
    return "".join(GENERATED_ALPHABET[ord(digit) % len(GENERATED_ALPHABET)] for digit in str(value))


def surplus(older: Sequence[ControllerRevision], live: Collection[str], limit: int) -> list[ControllerRevision]:
    """Return the revisions beyond the limit: the oldest of those that no pod uses (`live` are the names in use).

    `older` begins with the oldest revision. `limit` is the number of unused revisions to keep.
    """
    unused = [revision for revision in older if revision.metadata.name not in live]
    return unused[: max(0, len(unused) - limit)]


class RevisionHistory:
    """Reads and writes the ControllerRevisions of StatefulSets and DaemonSets."""

    def __init__(self, client: Client, informer: Informer[ControllerRevision], writes: OwnWrites) -> None:
        self._client = client
        self._informer = informer
        self._writes = writes
        index_by_controller(informer)

    def known(self, owner: RevisionOwner) -> list[ControllerRevision]:
        """Return all revisions of a set, oldest first."""
        return sorted(controlled(self._informer, owner), key=lambda one: (one.revision, one.metadata.name))

    async def record(self, owner: RevisionOwner, hash_: str = "") -> TemplateRevisions:
        """Ensure that a revision exists for the set's template.

        `hash_` is the hash that its pods already carry, or "". Returns the template's revision and all others.
        """
        known = self.known(owner)
        data = revision_data(owner.spec.template)
        newest = known[-1].revision if known else 0
        same = next((one for one in reversed(known) if one.data == data), None)
        if same is None:
            current = await self._create(owner, data, newest + 1, hash_)
        elif same.revision < newest:
            current = await self._renumber(owner, same, newest + 1)
        else:
            current = same
        return TemplateRevisions(current, [one for one in known if one.metadata.uid != current.metadata.uid])

    async def _create(self, owner: RevisionOwner, data: Tree, number: int, hash_: str) -> ControllerRevision:
        meta = owner.metadata
        collisions = owner.status.collisionCount or 0
        while True:
            text = hash_ or revision_hash(data, collisions)
            labels = {**owner.spec.template.metadata.labels, HASH_LABEL: text, REVISION_LABEL: text}
            tree: Tree = {
                "metadata": {
                    "name": f"{meta.name}-{text}",
                    "namespace": meta.namespace,
                    "labels": labels,
                    "annotations": dict(meta.annotations),
                    "ownerReferences": [controller_reference(owner)],
                },
                "data": data,
                "revision": number,
            }
            try:
                made = await self._client.create(ControllerRevision, tree, namespace=meta.namespace)
            except AlreadyExists:
                found = await self._client.get(ControllerRevision, f"{meta.name}-{text}", meta.namespace)
                if found.data == data:
                    return found
                collisions, hash_ = collisions + 1, ""
                continue
            self._writes.wrote(owner, made)
            return made

    async def _renumber(self, owner: RevisionOwner, revision: ControllerRevision, number: int) -> ControllerRevision:
        meta = revision.metadata
        changed = await self._client.patch(ControllerRevision, meta.name, {"revision": number}, meta.namespace)
        self._writes.wrote(owner, changed)
        return changed

    async def trim(self, owner: RevisionOwner, older: Sequence[ControllerRevision], live: Collection[str]) -> None:
        """Delete revisions beyond the set's history limit that no pod uses.

        The limit is 10 if the set does not say. `live` are the names of revisions in use.
        """
        limit: Any = owner.spec.revisionHistoryLimit
        for revision in surplus(older, live, 10 if limit is None else limit):
            meta = revision.metadata
            try:
                await self._client.delete(ControllerRevision, meta.name, meta.namespace, uid=meta.uid)
            except NotFound:
                continue
            self._writes.deleted(owner, revision)
