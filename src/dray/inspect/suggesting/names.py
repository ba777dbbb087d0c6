"""Suggestions for names that do not exist, and for claims that cannot be created or used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api import podclaims
from dray.api.quantity import Quantity
from dray.api.reasons.cause_wording import requests_of
from dray.api.reasons.causes.claim_missing import (
    AsClaim,
    AsTemplate,
    ClaimMissing,
    CopyClaim,
    CopyTemplate,
    TemplateMissing,
    UseClaim,
    UseTemplate,
)
from dray.api.reasons.causes.claim_use import (
    ClaimAgain,
    ClaimDeleting,
    ClaimElsewhere,
    ClaimFull,
    ClaimOutOfReach,
    ClaimsApart,
    ForeignClaim,
    MakeClaimAnew,
    OwnClaim,
)
from dray.api.reasons.causes.class_missing import ClassMissing, CreateClass, UseClass
from dray.api.reasons.causes.extended_resource import NoSuchResource, UseResource
from dray.api.reasons.causes.not_created import CreateAccount, QuotaExceeded, RaiseQuota
from dray.api.reasons.causes.pod_groups import (
    CreateGroup,
    GangIncomplete,
    GroupClaimMissing,
    GroupMissing,
    MoreMembers,
    UseGroupClaim,
)
from dray.api.reasons.suggestions import Suggestion
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod, ResourceQuota
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.api.usage import ZERO, usage_of
from dray.api.wire import Tree
from dray.inspect.changes import applied, created, deleted, is_controlled, manifest_of, patched
from dray.inspect.hardware import alike
from dray.inspect.suggesting.subject import WaitingPod, requests_in

RESOURCE_API = "resource.k8s.io/v1"
_CLAIM, _TEMPLATE = "resourceClaimName", "resourceClaimTemplateName"


def class_missing(subject: WaitingPod, cause: ClassMissing) -> Iterator[Suggestion]:
    """Yield suggestions to use a class with a similar name, or to create a class for the driver of that name."""
    where = requests_of(cause.claim, [cause.request], cause.template)
    if cause.similar:

        def rename(spec: Tree) -> None:
            for request in requests_in(spec, cause.request):
                request["deviceClassName"] = cause.similar

        changes = subject.claim_again(cause.claim, rename)
        yield UseClass(where, cause.device_class, cause.similar, changes=changes)
    drivers = {one.id.driver for one in subject.hardware.usable}
    if cause.device_class in drivers:
        expression = f'device.driver == "{cause.device_class}"'
        tree: Tree = {
            "apiVersion": RESOURCE_API,
            "kind": "DeviceClass",
            "metadata": {"name": cause.device_class},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        yield CreateClass(cause.device_class, cause.device_class, changes=(created(tree),))


def claim_missing(subject: WaitingPod, cause: ClaimMissing) -> Iterator[Suggestion]:
    """Yield suggestions to use a claim of a similar name, a template of that name, or a copy from another namespace."""
    if cause.similar:
        changes = subject.again(lambda spec: _rename(spec, _CLAIM, cause.claim, cause.similar))
        yield UseClaim(subject.label, cause.claim, cause.similar, changes=changes)
    if cause.other_kind:
        changes = subject.again(lambda spec: _named_by(spec, _CLAIM, _TEMPLATE, cause.claim))
        yield AsTemplate(subject.label, cause.claim, changes=changes)
    yield from _copied(subject, ResourceClaim, cause.claim, CopyClaim)


def template_missing(subject: WaitingPod, cause: TemplateMissing) -> Iterator[Suggestion]:
    """Yield suggestions to use a template of a similar name, a claim of that name, or a copy from another namespace."""
    if cause.similar:
        changes = subject.again(lambda spec: _rename(spec, _TEMPLATE, cause.template, cause.similar))
        yield UseTemplate(subject.label, cause.template, cause.similar, changes=changes)
    if cause.other_kind:
        changes = subject.again(lambda spec: _named_by(spec, _TEMPLATE, _CLAIM, cause.template))
        yield AsClaim(subject.label, cause.template, changes=changes)
    yield from _copied(subject, ResourceClaimTemplate, cause.template, CopyTemplate)


def _copied(
    subject: WaitingPod,
    type_: type[ResourceClaim | ResourceClaimTemplate],
    name: str,
    kind: type[CopyClaim | CopyTemplate],
) -> Iterator[Suggestion]:
    """Yield suggestions to copy an object of this name from another namespace.

    Objects with a controller are left out.
    """
    for one in subject.snapshot.all(type_):
        if one.metadata.name == name and one.metadata.namespace != subject.namespace and not is_controlled(one):
            tree = manifest_of(one)
            tree["metadata"]["namespace"] = subject.namespace
            yield kind(name, one.metadata.namespace, changes=(created(tree),))


def _rename(spec: Tree, field: str, old: str, new: str) -> None:
    """Replace a claim or template name in the entries of a pod spec, in place."""
    for entry in spec.get("resourceClaims", ()):
        if entry.get(field) == old:
            entry[field] = new


def _named_by(spec: Tree, old: str, new: str, name: str) -> None:
    """Move the name of a claim or template to the other field of its entry, in place."""
    for entry in spec.get("resourceClaims", ()):
        if entry.get(old) == name:
            entry[new] = entry.pop(old)


def resource_unknown(subject: WaitingPod, cause: NoSuchResource) -> Iterator[Suggestion]:
    """Yield the suggestion to use an extended resource with a similar name.

    Yields nothing if no name is similar.
    """
    if not cause.similar:
        return

    def rename(spec: Tree) -> None:
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for amounts in (container.get("resources", {}).get(kind, {}) for kind in ("requests", "limits")):
                if cause.resource in amounts:
                    amounts[cause.similar] = amounts.pop(cause.resource)

    changes = subject.again(rename)
    yield UseResource(subject.label, cause.resource, cause.similar, changes=changes)


# Groups


def group_missing(subject: WaitingPod, cause: GroupMissing) -> Iterator[Suggestion]:
    """Yield the suggestion to create the PodGroup with the basic policy."""
    tree: Tree = {
        "apiVersion": PodGroup().apiVersion,
        "kind": "PodGroup",
        "metadata": {"name": cause.group, "namespace": subject.namespace},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    yield CreateGroup(cause.group, changes=(created(tree),))


def group_claim_missing(subject: WaitingPod, cause: GroupClaimMissing) -> Iterator[Suggestion]:
    """Yield the suggestion to use a claim of the PodGroup with a similar name, or its only claim.

    Yields nothing if there is neither.
    """
    names = [entry.name for entry in subject.group.spec.resourceClaims] if subject.group is not None else []
    meant = alike(cause.claim, names) or (names[0] if len(names) == 1 else "")
    if not meant:
        return

    def rename(spec: Tree) -> None:
        for entry in spec.get("resourceClaims", ()):
            if entry["name"] == cause.entry:
                entry["podGroupResourceClaim"] = meant

    changes = subject.again(rename)
    yield UseGroupClaim(subject.label, cause.claim, meant, changes=changes)


def gang_incomplete(subject: WaitingPod, cause: GangIncomplete) -> Iterator[Suggestion]:
    """Yield the suggestion to create the missing pods of a gang as copies of this pod.

    Yields nothing if a controller owns the pod. Copies are named POD-1, POD-2 and so on.
    """
    missing = cause.min_count - cause.pods
    if not is_controlled(subject.pod):
        changes = []
        for number in range(1, missing + 1):
            tree = manifest_of(subject.pod)
            tree["metadata"]["name"] = f"{subject.name}-{number}"
            changes.append(created(tree))
        yield MoreMembers(cause.group, missing, changes=tuple(changes))


# Claims that cannot be created or used


def pod_quota(subject: WaitingPod, cause: QuotaExceeded, number: int) -> Iterator[Suggestion]:
    """Yield the suggestion to raise a quota for `number` more pods.

    Yields nothing if the quota does not exist.
    """
    found = subject.snapshot.get(ResourceQuota, cause.quota, subject.namespace)
    if found is not None:
        yield _raised(found, cause, [Quantity.parse(cause.wanted)] * number)


def claim_quota(subject: WaitingPod, cause: QuotaExceeded) -> Iterator[Suggestion]:
    """Yield the suggestion to raise a quota for the claims of all waiting pods, since they are created in any order.

    Yields nothing if the quota does not exist.
    """
    found = subject.snapshot.get(ResourceQuota, cause.quota, subject.namespace)
    if found is not None:
        known = {claim.metadata.uid for claim in subject.snapshot.all(ResourceClaim)}
        unlimited = applied(subject.snapshot, [patched(found, {"spec": {"hard": {cause.resource: None}}})])
        claims = [one for one in unlimited.all(ResourceClaim) if one.metadata.namespace == subject.namespace]
        missing = [usage_of(BY_TYPE[ResourceClaim], one) for one in claims if one.metadata.uid not in known]
        yield _raised(found, cause, [usage.get(cause.resource, ZERO) for usage in missing])


def _raised(quota: ResourceQuota, cause: QuotaExceeded, more: Iterable[Quantity]) -> RaiseQuota:
    """Return the suggestion to raise a quota by these amounts."""
    needed = str(sum(more, Quantity.parse(cause.used)))
    change = patched(quota, {"spec": {"hard": {cause.resource: needed}}})
    return RaiseQuota(cause.quota, cause.resource, needed, changes=(change,))


def claim_foreign(subject: WaitingPod, cause: ForeignClaim) -> Iterator[Suggestion]:
    """Yield the suggestion to delete a claim of another owner, so that the pod's own claim can be generated.

    Yields nothing if the claim does not exist.
    """
    claim = subject.claim(cause.claim)
    if claim is not None:
        changes = (deleted(claim), *(subject.again(lambda spec: None) or (deleted(subject.pod),)))
        yield MakeClaimAnew(cause.claim, changes=changes)


def claim_deleting(subject: WaitingPod, cause: ClaimDeleting) -> Iterator[Suggestion]:
    """Yield the suggestion to delete the pods that use a terminating claim and create the claim again.

    Yields nothing if the claim does not exist, has no users, or a controller owns one of them.
    """
    claim = subject.claim(cause.claim)
    if claim is None:
        return
    users = [pod for pod in subject.snapshot.all(Pod) if podclaims.is_reserved_for(claim, pod.metadata.uid)]
    if users and not any(map(is_controlled, users)):
        changes = (*map(deleted, users), created(manifest_of(claim)))
        names = tuple(f"pod {pod.metadata.name}" for pod in users)
        yield ClaimAgain(cause.claim, names, changes=changes)


def own_claim(subject: WaitingPod, cause: ClaimFull | ClaimElsewhere | ClaimOutOfReach) -> Iterator[Suggestion]:
    """Yield the suggestion to give the pod a claim of its own, as a copy of the claim that it cannot use."""
    yield from _own(subject, cause.claim)


def own_claims(subject: WaitingPod, cause: ClaimsApart) -> Iterator[Suggestion]:
    """Yield suggestions to replace one of several claims that no node can reach together by a new claim of the pod."""
    for name in cause.claims:
        yield from _own(subject, name)


def _own(subject: WaitingPod, old: str) -> Iterator[Suggestion]:
    """Yield the suggestion to create a copy of a claim for this pod.

    Named POD-CLAIM. Yields nothing if the claim does not exist or has a controller, or the name is taken.
    """
    claim = subject.claim(old)
    name = f"{subject.name}-{old}"
    if claim is None or is_controlled(claim) or subject.claim(name) is not None:
        return
    tree = manifest_of(claim)
    tree["metadata"] = {"name": name, "namespace": subject.namespace}
    pod = subject.again(lambda spec: _rename(spec, _CLAIM, old, name))
    changes = (created(tree), *pod) if pod else ()
    yield OwnClaim(subject.label, old, name, changes=changes)


def account(namespace: str, name: str) -> Suggestion:
    """Return the suggestion to create a service account."""
    tree: Tree = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    return CreateAccount(name, changes=(created(tree),))
