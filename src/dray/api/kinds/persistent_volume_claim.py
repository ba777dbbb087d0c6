"""PersistentVolumeClaim: requests a volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import STATUS, Resource
from dray.api.pod_warnings import claim_warnings
from dray.api.trees import add_finalizer
from dray.api.types import core
from dray.api.wire import Tree

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: Iterable[str]) -> str:
    """Return the short names of access modes, separated by commas."""
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def phase(obj: core.PersistentVolume | core.PersistentVolumeClaim) -> str:
    """Return the phase of a volume or claim, or `Terminating` if it is being deleted."""
    return "Terminating" if obj.metadata.deletionTimestamp else obj.status.phase


_DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _create(tree: Tree) -> None:
    """Add the finalizer that protects a claim in use, set the initial status and fill in both data source fields."""
    add_finalizer(tree, "kubernetes.io/pvc-protection")
    tree["status"] = {"phase": "Pending"}
    spec = tree.setdefault("spec", {})
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCES:
        source = None  # the older field dataSource supports no other kinds
        del spec["dataSource"]
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in ("apiGroup", "kind", "name") if name in reference}


def _warnings(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim | None) -> Iterator[str]:
    return claim_warnings(claim.spec, "spec")


KIND = Resource(
    core.PersistentVolumeClaim,
    short_names=("pvc",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Status", phase),
        text("Volume", "spec.volumeName"),
        text("Capacity", lambda claim: claim.spec.volumeName and claim.status.capacity.get("storage")),
        text("Access Modes", lambda claim: claim.spec.volumeName and access_modes(claim.status.accessModes)),
        text("StorageClass", "spec.storageClassName"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        wide("VolumeMode", "spec.volumeMode", UNSET),
    ),
    status_writes_metadata=True,
    defaults={"spec.volumeMode": "Filesystem", "status.phase": "Pending"},
    on_create=_create,
    warnings=_warnings,
    is_returned_when_deleted=True,
)
