"""Binds PersistentVolumeClaims to PersistentVolumes, and provisions directories of this machine for the default
class.

The class `hostpath` is created if no default class exists; its volumes are directories in the cluster's own
directory. Binding is written to the volume first, then to the claim. A volume whose claim is gone is deleted with its
directory, or kept, as its reclaim policy says. Claims and volumes in use keep their finalizers. Left out: other
provisioners, which work on their own.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dray.api.errors import AlreadyExists, NotFound
from dray.api.podclaims import is_finished
from dray.api.quantity import Quantity
from dray.api.selectors import label_selector
from dray.api.times import timestamp
from dray.api.types.core import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from dray.api.types.storage import StorageClass
from dray.api.wire import Tree
from dray.client import Deltas, Key, change_status, key_of, with_fields
from dray.controllers.context import ControllerContext
from dray.controllers.workloads.pods import is_deleting

PROVISIONER = "dray.io/hostpath"
CLASS = "hostpath"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
WORKERS = 4
BY_CLAIM = "claim"


def fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a volume satisfies a claim and is not bound to another claim.

    Compares storage class, access modes, volume mode, selector and size. A volume that is being deleted never fits.
    """
    spec, offered = claim.spec, volume.spec
    if is_deleting(volume) or (offered.storageClassName or "") != (spec.storageClassName or ""):
        return False
    if offered.claimRef is not None and not _is_of(offered.claimRef, claim):
        return False
    if not set(spec.accessModes) <= set(offered.accessModes) or (spec.volumeMode or "") != (offered.volumeMode or ""):
        return False
    if spec.selector is not None and not label_selector(spec.selector).matches(volume.metadata.labels):
        return False
    asked, there = spec.resources.requests.get("storage", "0"), offered.capacity.get("storage", "0")
    return Quantity.parse(asked) <= Quantity.parse(there)


def _is_of(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    meta = claim.metadata
    named = (reference.namespace, reference.name) == (meta.namespace, meta.name)
    return named and reference.uid in ("", meta.uid)


def smallest(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """Return the smallest fitting volume, or None if none fits. A volume that already names the claim is preferred."""
    fitting = [volume for volume in volumes if fits(claim, volume)]
    return min(
        fitting,
        key=lambda one: (one.spec.claimRef is None, Quantity.parse(one.spec.capacity["storage"]), one.metadata.name),
        default=None,
    )


def claim_reference(claim: PersistentVolumeClaim) -> Tree:
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


def volume_tree(claim: PersistentVolumeClaim, class_: StorageClass, root: str) -> Tree:
    """Return the PersistentVolume to create for a claim: a directory of its own below `root`.

    `root` is a directory of the host.
    """
    name = f"pvc-{claim.metadata.uid}"
    return {
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": list(claim.spec.accessModes),
            "capacity": {"storage": claim.spec.resources.requests["storage"]},
            "claimRef": claim_reference(claim),
            "hostPath": {"path": str(Path(root) / name), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": class_.reclaimPolicy or "Delete",
            "storageClassName": class_.metadata.name,
            "volumeMode": claim.spec.volumeMode or "Filesystem",
        },
    }


class VolumeController:
    """Binds claims, provisions and deletes volumes, and removes finalizers of unused claims and volumes."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client_for("persistent-volume-binder")
        self._clock = context.clock
        self._recorder = context.recorder
        self._root = context.volumes
        informers = context.informers
        self._claims = informers.informer(PersistentVolumeClaim)
        self._volumes = informers.informer(PersistentVolume)
        self._classes = informers.informer(StorageClass)
        self._pods = informers.informer(Pod)
        self._pods.add_index(BY_CLAIM, _claims_of)
        self._controller = context.controller("persistentvolume", self._reconcile, WORKERS)
        self._claims.add_handler(self._on_claims)
        self._volumes.add_handler(self._on_volumes)
        self._classes.add_handler(self._on_classes)
        self._pods.add_handler(self._on_pods)

    async def run(self) -> None:
        if self._root and not any(_is_default(class_) for class_ in self._classes.list()):
            await self._make_class()
        await self._controller.run()

    async def _make_class(self) -> None:
        metadata = {"name": CLASS, "annotations": {IS_DEFAULT: "true"}}
        with suppress(AlreadyExists):
            await self._client.create(StorageClass, {"metadata": metadata, "provisioner": PROVISIONER})

    # Event handlers

    def _on_claims(self, deltas: Deltas[PersistentVolumeClaim]) -> None:
        for delta in deltas:
            self._look("claim", key_of(delta.object))
            if delta.object.spec.volumeName:
                self._look("volume", ("", delta.object.spec.volumeName))

    def _on_volumes(self, deltas: Deltas[PersistentVolume]) -> None:
        for delta in deltas:
            self._look("volume", key_of(delta.object))
        self._look_at_pending()

    def _on_classes(self, deltas: Deltas[StorageClass]) -> None:
        self._look_at_pending()

    def _look_at_pending(self) -> None:
        for claim in self._claims.list():
            if claim.status.phase == "Pending":
                self._look("claim", key_of(claim))

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        """Queue the claims of pods that have ended, because a deleted claim may now be unused."""
        for old, new in deltas:
            if old is not None and (new is None or is_finished(new)):
                for key in _claims_of(old):
                    namespace, _, name = key.partition("/")
                    self._look("claim", (namespace, name))

    def _look(self, what: str, key: Key) -> None:
        self._controller.queue.add((what, key))

    async def _reconcile(self, item: tuple[str, Key]) -> None:
        what, key = item
        if what == "claim":
            claim = self._claims.get(*key)
            if claim is not None:
                await (self._release_claim(claim) if is_deleting(claim) else self._bind(claim))
        else:
            volume = self._volumes.get("", key[1])
            if volume is not None:
                await self._settle(volume)

    # Claims

    async def _bind(self, claim: PersistentVolumeClaim) -> None:
        if claim.spec.volumeName:
            volume = self._volumes.get("", claim.spec.volumeName)
        else:
            volume = smallest(claim, self._volumes.list())
            if volume is None:
                await self._provision(claim)
                return
        if volume is None or (volume.spec.claimRef is not None and not _is_of(volume.spec.claimRef, claim)):
            return
        if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
            volume = await self._claim_volume(volume, claim)
        await self._volume_phase(volume, "Bound")
        if not claim.spec.volumeName:
            annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes", BOUND_BY: "yes"}
            meta = claim.metadata
            said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "annotations": annotations}
            patch = {"metadata": said, "spec": {"volumeName": volume.metadata.name}}
            claim = await self._client.patch(PersistentVolumeClaim, meta.name, patch, meta.namespace)
        if claim.status.phase != "Bound":
            status = {
                "phase": "Bound",
                "accessModes": list(volume.spec.accessModes),
                "capacity": dict(volume.spec.capacity),
            }
            await self._client.patch_status(claim, with_fields(claim.status, status))

    async def _claim_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        meta = volume.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resourceVersion, "annotations": {**meta.annotations, BOUND_BY: "yes"}},
            "spec": {"claimRef": claim_reference(claim)},
        }
        return await self._client.patch(PersistentVolume, meta.name, patch)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        name = claim.spec.storageClassName or ""
        class_ = self._classes.get("", name) if name else None
        if class_ is None or class_.provisioner != PROVISIONER or not self._root:
            return
        if claim.spec.volumeMode == "Block":
            text = "volumes of the class are directories, and the claim asks for a block device"
            self._recorder.warning(claim, "ProvisioningFailed", text)
            return
        tree = volume_tree(claim, class_, self._root)
        await asyncio.to_thread(Path(tree["spec"]["hostPath"]["path"]).mkdir, parents=True, exist_ok=True)
        with suppress(AlreadyExists):
            volume = await self._client.create(PersistentVolume, tree)
            text = f"Successfully provisioned volume {volume.metadata.name}"
            self._recorder.record(claim, "ProvisioningSucceeded", text)

    async def _release_claim(self, claim: PersistentVolumeClaim) -> None:
        """Remove the finalizer of a deleted claim once no pod uses the claim."""
        meta = claim.metadata
        users = self._pods.by_index(BY_CLAIM, f"{meta.namespace}/{meta.name}")
        if CLAIM_FINALIZER not in meta.finalizers or any(not is_finished(pod) for pod in users):
            return
        kept = [finalizer for finalizer in meta.finalizers if finalizer != CLAIM_FINALIZER]
        with suppress(NotFound):
            await self._client.patch(
                PersistentVolumeClaim,
                meta.name,
                {"metadata": {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": kept}},
                meta.namespace,
            )

    # Volumes

    async def _settle(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claimRef
        claim = self._claims.get(reference.namespace, reference.name) if reference is not None else None
        held = claim is not None and reference is not None and reference.uid in ("", claim.metadata.uid)
        if is_deleting(volume):
            if not held:
                await self._release_volume(volume)
        elif reference is None:
            await self._volume_phase(volume, "Available")
        elif not held and reference.uid:
            await self._reclaim(volume)

    async def _reclaim(self, volume: PersistentVolume) -> None:
        """Release a volume whose claim is gone; delete the volume and its directory if its reclaim policy is Delete.

        Only volumes and directories that this controller has provisioned are deleted.
        """
        if volume.status.phase != "Released":
            await self._volume_phase(volume, "Released")
        is_ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
        if not is_ours or volume.spec.persistentVolumeReclaimPolicy != "Delete":
            return
        path = volume.spec.hostPath.path if volume.spec.hostPath is not None else ""
        if self._root and path and Path(path).parent == Path(self._root):
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        with suppress(NotFound):
            await self._client.delete(PersistentVolume, volume.metadata.name, uid=volume.metadata.uid)

    async def _release_volume(self, volume: PersistentVolume) -> None:
        meta = volume.metadata
        if VOLUME_FINALIZER in meta.finalizers:
            kept = [finalizer for finalizer in meta.finalizers if finalizer != VOLUME_FINALIZER]
            patch = {"metadata": {"resourceVersion": meta.resourceVersion, "finalizers": kept}}
            with suppress(NotFound):
                await self._client.patch(PersistentVolume, meta.name, patch)

    async def _volume_phase(self, volume: PersistentVolume, phase: str) -> None:
        if volume.status.phase != phase:
            since = timestamp(self._clock.time())
            with suppress(NotFound):
                await change_status(
                    self._client, volume, lambda one: replace(one.status, phase=phase, lastPhaseTransitionTime=since)
                )


def _is_default(class_: StorageClass) -> bool:
    return class_.metadata.annotations.get(IS_DEFAULT) == "true"


def _claims_of(pod: Pod) -> list[str]:
    found: list[Any] = [volume.persistentVolumeClaim for volume in pod.spec.volumes]
    return [f"{pod.metadata.namespace}/{claim.claimName}" for claim in found if claim is not None]
