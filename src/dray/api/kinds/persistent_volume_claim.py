"""PersistentVolumeClaim: requests a volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from dray.api import names
from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.errors import forbidden, invalid, required
from dray.api.kind import STATUS, Resource
from dray.api.paths import SPEC, Path
from dray.api.pod_warnings import claim_warnings
from dray.api.quantity import Quantity
from dray.api.rules import Errors, named, unchanged
from dray.api.trees import add_finalizer
from dray.api.types import core
from dray.api.wire import Tree

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: Iterable[str]) -> str:
    """Return the short names of access modes, separated by commas, for example `RWO,ROX`.

    The order is fixed; unknown modes are left out.
    """
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


def positive_amount(amount: str, path: Path) -> Errors:
    if Quantity.parse(amount).sign <= 0:
        yield invalid(path, amount, "must be greater than zero")


def claimed(resources: core.VolumeResourceRequirements, path: Path) -> Errors:
    """Yield an error unless a volume claim requests a positive amount of storage."""
    amount = resources.requests.get("storage")
    if amount is None:
        yield required(path % "storage")
    else:
        yield from positive_amount(amount, path % "storage")


def data_sources(spec: core.PersistentVolumeClaimSpec, path: Path) -> Errors:
    """Yield errors if dataSource and dataSourceRef of a volume claim contradict each other.

    With a namespace, which must be valid, dataSourceRef excludes dataSource; otherwise both must be equal.
    dataSourceRef must be set.
    """
    source, reference = spec.dataSource, spec.dataSourceRef
    assert reference is not None  # only called if the field is set
    if reference.namespace:
        yield from named(reference.namespace, path / "dataSourceRef" / "namespace", names.label)
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(path, str(path / "dataSource"), text)
    elif source is not None:
        same = (source.apiGroup, source.kind, source.name) == (reference.apiGroup, reference.kind, reference.name)
        if not same:
            yield invalid(path, str(path / "dataSource"), "must match dataSourceRef")


def same_claim(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, _: Path | None) -> Errors:
    """Yield errors if an update changes more than permitted.

    A bound claim may only grow; an unbound claim may get a volume and a class.
    """
    before, now = old.spec, claim.spec
    given: Any = {"volumeName": now.volumeName} if not before.volumeName else {}
    if before.storageClassName is None:
        given["storageClassName"] = now.storageClassName
    resources, attributes = now.resources, now.volumeAttributesClassName
    changed: Any = {"volumeAttributesClassName": attributes}
    if old.status.phase == "Bound":
        changed["resources"] = replace(before.resources, requests=resources.requests)
    if replace(before, **given, **changed) != now and replace(before, **changed) != now:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden(SPEC, text)
    yield from _shrunk(claim, old)
    yield from unchanged(now.volumeMode, before.volumeMode, Path("volumeMode"), now.volumeMode)
    if before.volumeAttributesClassName is not None and not attributes:
        instead = "nil" if attributes is None else "an empty string"
        yield forbidden(SPEC / "volumeAttributesClassName", f"update from non-nil value to {instead} is forbidden")


def quantities(amounts: Mapping[str, str], path: Path) -> Errors:
    """Yield an error for each negative amount."""
    for name, amount in amounts.items():
        yield from valid_amount(amount, path % name)


def valid_amount(amount: str, path: Path) -> Errors:
    if (quantity := Quantity.parse(amount)).sign < 0:
        yield invalid(path, quantity.scaled(0), "must be a valid resource quantity")


def _shrunk(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim) -> Errors:
    """Yield an error if the request shrinks to the current capacity or below. It may shrink to a value above it."""
    asked, before, there = (
        Quantity.parse(amounts.get("storage", "0"))
        for amounts in (claim.spec.resources.requests, old.spec.resources.requests, old.status.capacity)
    )
    if asked < before and asked <= there:
        yield forbidden(SPEC / "resources" / "requests" / "storage", "field can not be less than status.capacity")


def data_source(source: core.TypedLocalObjectReference | core.TypedObjectReference, path: Path) -> Errors:
    """Yield errors in the object from which a volume claim is populated.

    Name and kind are required; without apiGroup, the kind must be PersistentVolumeClaim.
    """
    for name in ("name", "kind"):
        if not getattr(source, name):
            yield required(path / name)
    if not source.apiGroup and source.kind != "PersistentVolumeClaim":
        yield invalid(path, source.kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if source.apiGroup:
        yield from named(source.apiGroup, path / "apiGroup", names.subdomain)
