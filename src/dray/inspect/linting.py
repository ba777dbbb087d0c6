"""Checks of manifests before they are applied.

Reports first what the API server would reject, then accepted objects that could never be served: selectors that fail
or match nothing, alternatives that are never used, unsatisfiable constraints, and unknown names. Rules that need
devices are skipped without a cluster snapshot. No I/O. Left out: reading files, and kinds unrelated to devices beyond
API validation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dray.api import conversion, decode, defaults, strategy
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND, Resource
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet
from dray.api.types.batch import Job
from dray.api.types.core import Pod, ReplicationController
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.api.validation import Complaint, Context, validate_create
from dray.api.wire import Wire
from dray.cel import CelFeatures
from dray.cel.checking import check
from dray.inspect import consumption_rules, device_rules, pod_rules
from dray.inspect.findings import Finding
from dray.inspect.snapshot import Snapshot

_DRA = "resource.k8s.io"
_NEWEST = "v1"


def lint(
    trees: Iterable[tuple[str, dict[str, Any]]], gates: FeatureGates, cluster: Snapshot | None = None
) -> list[Finding]:
    """Return all findings for some documents, each given with its place (such as a file name).

    The documents are also checked against each other and, if given, against the objects of a cluster.
    """
    findings: list[Finding] = []
    objects: list[tuple[str, Wire]] = []
    for place, tree in trees:
        found, object_ = _read(place, tree, gates)
        findings += found
        if object_ is not None:
            objects.append((place, object_))
    known = _together([object_ for _, object_ in objects], cluster)
    for place, object_ in objects:
        findings += _rules(place, object_, known, cluster)
    return findings


# Errors that the API server would report


def _read(place: str, tree: dict[str, Any], gates: FeatureGates) -> tuple[list[Finding], Wire | None]:
    """Decode and validate a document. Returns the findings, and the object if it is of a known kind and decodable.

    A kind of another API gives no findings and None.
    """
    api_version, kind = str(tree.get("apiVersion", "")), str(tree.get("kind", ""))
    name = str((tree.get("metadata") or {}).get("name", "")) if isinstance(tree.get("metadata"), dict) else ""
    group, _, version = api_version.rpartition("/")
    resource = BY_KIND.get((group, kind))
    if not api_version or not kind:
        return [Finding("error", place, "", "apiVersion and kind must be given")], None
    if resource is None:
        if group == _DRA:
            return [Finding("error", place, "apiVersion", f"{api_version} has no kind {kind}")], None
        return [], None  # a kind of another API
    subject = f"{kind} {name}"
    if version not in resource.versions:
        text = f"{subject}: {api_version} is not served any more; use {resource.api_version(resource.stored)}"
        return [Finding("error", place, "apiVersion", text)], None
    return _checked(place, subject, resource, version, tree, gates)


def _checked(
    place: str, subject: str, resource: Resource, version: str, tree: dict[str, Any], gates: FeatureGates
) -> tuple[list[Finding], Wire | None]:
    """Decode, default and validate a document in a served version. Returns the findings and the object, or None.

    The object is None if the document cannot be decoded. An object with other errors is returned.
    """
    try:
        complaints = decode.check(resource, version, tree)
        stored = conversion.to_stored(resource, version, copy.deepcopy(tree))
        findings = [Finding("error", place, "", f"{subject}: {text}") for text in complaints]
        findings += _outdated(place, subject, resource, version, stored)
        defaults.apply_defaults(resource, stored, gates)
        if resource.namespaced:
            stored["metadata"].setdefault("namespace", "default")
        dropped = strategy.prepare_create(resource, stored, gates)
        findings += [Finding("warning", place, one.field, f"{subject}: {one}") for one in dropped]
        object_ = decode.to_object(resource.home, stored)
    except (BadRequest, msgspec.ValidationError) as error:
        return [Finding("error", place, "", f"{subject}: {error}")], None
    context = Context(
        gates,
        lambda expression: _checked_expression(expression, False, gates)[0],
        version,
        check_derived=lambda expression: _checked_expression(expression, True, gates),
    )
    for wrong in validate_create(resource, object_, context):
        findings.append(Finding("error", place, wrong.field, f"{subject}: {wrong.detail}"))
    return findings, object_


def _checked_expression(expression: str, is_derived: bool, gates: FeatureGates) -> tuple[Complaint | None, int]:
    """Check a CEL expression. Returns the complaint, or None if valid, and the estimated cost.

    `is_derived` is whether the expression computes a derived attribute instead of selecting devices.
    """
    features = CelFeatures(gates.served("DRAConsumableCapacity"), gates.served("DRAListTypeAttributes"))
    refusal, cost = check(expression, is_derived, features)
    return (Complaint(refusal.reason, refusal.detail) if refusal is not None else None), cost


def _outdated(place: str, subject: str, resource: Resource, version: str, stored: dict[str, Any]) -> Iterator[Finding]:
    """Yield a warning if the document uses an old version of the resource API.

    The finding contains the document in the stored version.
    """
    if resource.group == _DRA and version != _NEWEST and _NEWEST in resource.versions:
        text = f"{subject}: {resource.api_version(version)} is old; {resource.api_version(_NEWEST)} says the same"
        yield Finding("warning", place, "apiVersion", text, rewritten=copy.deepcopy(stored))


# Objects that could never be served


def _together(objects: Sequence[Wire], cluster: Snapshot | None) -> Snapshot:
    """Return a snapshot of the manifests, and of those cluster objects that the manifests do not replace.

    `cluster` is None if nothing else is known.
    """
    # every kind has metadata
    named = {(type(o), o.metadata.namespace, o.metadata.name) for o in objects}  # type: ignore[attr-defined]
    below = [
        o
        for found in (cluster.objects.values() if cluster else ())
        for o in found
        if (type(o), o.metadata.namespace, o.metadata.name) not in named
    ]
    known = Snapshot.of(*objects, *below)
    if cluster is not None:
        known.unreadable, known.partial, known.home = cluster.unreadable, cluster.partial, cluster.home
    return known


def _rules(place: str, object_: Wire, known: Snapshot, cluster: Snapshot | None) -> Iterator[Finding]:
    """Yield the findings of the lint rules for the object's kind.

    Other kinds have none. `cluster` is None if no cluster is checked against; `known` also has the checked objects.
    """
    match object_:
        case ResourceClaim():
            yield from _claim(place, "spec.devices", object_, known, cluster is not None)
        case ResourceClaimTemplate():
            claim = ResourceClaim(metadata=object_.metadata, spec=object_.spec.spec)
            yield from _claim(place, "spec.spec.devices", claim, known, cluster is not None)
        case DeviceClass():
            yield from device_rules.class_findings(place, object_, known)
            yield from consumption_rules.name_findings(place, object_, known)
        case ResourceSlice():
            yield from consumption_rules.slice_findings(place, object_, known)
        case Pod():
            yield from _pod(place, "spec", object_, known, cluster is not None)
        case Deployment() | ReplicaSet() | ReplicationController() | DaemonSet() | Job():
            pod = Pod(kind=object_.kind, metadata=object_.metadata, spec=object_.spec.template.spec)
            yield from _pod(place, "spec.template.spec", pod, known, cluster is not None)


def _claim(place: str, root: str, claim: ResourceClaim, known: Snapshot, connected: bool) -> Iterator[Finding]:
    findings = [*device_rules.claim_findings(place, root, claim, known, connected)]
    yield from findings
    if all(finding.level == "hint" for finding in findings):  # otherwise the reason is already known
        yield from consumption_rules.never_served(place, root, claim, known)


def _pod(place: str, root: str, pod: Pod, known: Snapshot, connected: bool) -> Iterator[Finding]:
    yield from pod_rules.pod_findings(place, root, pod, known, connected)
    if connected:
        yield from consumption_rules.extended_findings(place, root, pod, known)
