"""Validation of metadata: names, labels, annotations, owners, finalizers, and changes in updates."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from dray.api import names
from dray.api.errors import forbidden, invalid, required, too_long
from dray.api.names import NameCheck
from dray.api.paths import METADATA, Path
from dray.api.rules import IMMUTABLE, Errors, named
from dray.api.types import meta

ANNOTATIONS_MAX = 256 * 1024
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_fixed = attrgetter(*_FIXED)
_IDENTITY = ("apiVersion", "kind", "name", "uid")
_identity = attrgetter(*_IDENTITY)
_checked = attrgetter("labels", "annotations", "ownerReferences", "finalizers")
_LABELS = METADATA / "labels"
_ANNOTATIONS = METADATA / "annotations"
_OWNERS = METADATA / "ownerReferences"
_FINALIZERS = METADATA / "finalizers"


def metadata(
    value: meta.ObjectMeta, namespaced: bool, name_check: NameCheck = names.subdomain, any_finalizer: bool = False
) -> Errors:
    """Yield errors in the metadata of a new object. `any_finalizer` permits finalizers without a domain.

    `name_check` returns the errors of a name. The name must be set, even with generateName.
    """
    if value.generateName:
        for text in names.prefixed(name_check, value.generateName):
            yield invalid(METADATA / "generateName", value.generateName, text)
    if value.name:
        for text in name_check(value.name):
            yield invalid(METADATA / "name", value.name, text)
    else:
        yield required(METADATA / "name", "name or generateName is required")
    yield from _namespace(value.namespace, namespaced)
    if value.labels:
        yield from check_labels(value.labels, _LABELS)
    if value.annotations:
        yield from check_annotations(value.annotations, _ANNOTATIONS)
    if value.ownerReferences:
        yield from _owners(value.ownerReferences, _OWNERS)
    if value.finalizers:
        yield from _finalizers(value.finalizers, _FINALIZERS, any_finalizer)


def metadata_update(value: meta.ObjectMeta, old: meta.ObjectMeta, any_finalizer: bool = False) -> Errors:
    """Yield errors in the metadata of an update: changes of immutable fields, and errors in changed fields.

    Also reports a lower generation, and finalizers added while the object is being deleted.
    """
    if old.deletionTimestamp:
        added = sorted(set(value.finalizers) - set(old.finalizers))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield forbidden(_FINALIZERS, f"{text} []string{{{listed}}}")
    if (new := _fixed(value)) != (known := _fixed(old)):
        for name, after, before in zip(_FIXED, new, known, strict=True):
            if after != before:
                yield invalid(METADATA / name, after, IMMUTABLE)
    if value.generation < old.generation:
        yield invalid(METADATA / "generation", value.generation, "must not be decremented")
    if _checked(value) != _checked(old):
        yield from _changes(value, old, any_finalizer)


def _changes(value: meta.ObjectMeta, old: meta.ObjectMeta, any_finalizer: bool) -> Errors:
    """Yield errors in changed fields; unchanged fields are not validated again."""
    if value.labels != old.labels:
        yield from check_labels(value.labels, _LABELS)
    if value.annotations != old.annotations:
        yield from check_annotations(value.annotations, _ANNOTATIONS)
    if value.ownerReferences != old.ownerReferences:
        yield from _owners(value.ownerReferences, _OWNERS)
    if value.finalizers != old.finalizers:
        yield from _finalizers(value.finalizers, _FINALIZERS, any_finalizer)


def template_metadata(value: meta.ObjectMeta, path: Path) -> Errors:
    """Yield errors in the labels and annotations of a pod template. As in Kubernetes, the paths omit `metadata`."""
    yield from check_labels(value.labels, path / "labels")
    yield from check_annotations(value.annotations, path / "annotations")


def claim_template_metadata(value: meta.ObjectMeta, path: Path) -> Errors:
    """Yield errors in the metadata of a claim template. Fields that would be ignored are forbidden."""
    yield from check_annotations(value.annotations, path / "annotations")
    yield from check_labels(value.labels, path / "labels")
    # Fields that the server sets are not checked, because they cannot be distinguished from the client's input.
    for field in (
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ):
        if getattr(value, field):
            yield forbidden(path / field, "cannot be set")


def check_labels(value: Mapping[str, str], path: Path) -> Errors:
    for key, text in value.items():
        yield from named(key, path, names.qualified_name)
        yield from named(text, path, names.label_value)


def check_annotations(value: Mapping[str, str], path: Path) -> Errors:
    for key in value:
        for text in names.qualified_name(key.lower()):
            yield invalid(path, key, text)
    if sum(len(key.encode()) + len(text.encode()) for key, text in value.items()) > ANNOTATIONS_MAX:
        yield too_long(path, ANNOTATIONS_MAX)


def _namespace(value: str, namespaced: bool) -> Errors:
    if not namespaced:
        if value:
            yield forbidden(METADATA / "namespace", "not allowed on this type")
    elif not value:
        yield required(METADATA / "namespace")
    else:
        for text in names.label(value):
            yield invalid(METADATA / "namespace", value, text)


def _owners(owners: tuple[meta.OwnerReference, ...], path: Path) -> Errors:
    controller: meta.OwnerReference | None = None
    for index, owner in enumerate(owners):
        if not all(_identity(owner)):
            for field in _IDENTITY:
                if not getattr(owner, field):
                    yield required(path / index / field, "must not be empty")
        if (owner.apiVersion, owner.kind) == ("v1", "Event"):
            yield invalid(path / index, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.controller:
            if controller is not None:
                yield invalid(
                    path,
                    owners,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.kind}/{controller.name} and {owner.kind}/{owner.name}",
                )
            controller = controller or owner


def _finalizers(finalizers: tuple[str, ...], path: Path, any_finalizer: bool) -> Errors:
    for finalizer in finalizers:
        yield from named(finalizer, path, names.qualified_name)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid(path, list(finalizers), text)
    for index, finalizer in enumerate(() if any_finalizer else finalizers):
        yield from _owned(finalizer, path / index)


def finalizer_name(finalizer: str, path: Path) -> Errors:
    """Yield errors if a finalizer is not a qualified name, or neither standard nor with a domain."""
    yield from named(finalizer, path, names.qualified_name)
    yield from _owned(finalizer, path)


def _owned(finalizer: str, path: Path) -> Errors:
    if not names.is_owned_finalizer(finalizer):
        yield invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
