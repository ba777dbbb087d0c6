"""Suggestions for names that lead nowhere and for claims that cannot be made or used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.quantity import Quantity
from dray.api.reasons.causes import Cause
from dray.api.reasons.suggestions import Suggestion, SuggestionCode
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


def class_missing(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Another class that is alike, or a class for the driver of that name."""
    where = f"request {cause.request} of claim {cause.claim}"
    if cause.meant:

        def rename(spec: Tree) -> None:
            for request in requests_in(spec, cause.request):
                request["deviceClassName"] = cause.meant

        changes = subject.claim_again(cause.claim, rename)
        yield Suggestion(SuggestionCode.USE_CLASS, where, cause.subject, cause.meant, changes=changes)
    drivers = {one.id.driver for one in subject.hardware.usable}
    if cause.subject in drivers:
        expression = f'device.driver == "{cause.subject}"'
        tree: Tree = {
            "apiVersion": RESOURCE_API,
            "kind": "DeviceClass",
            "metadata": {"name": cause.subject},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        yield Suggestion(SuggestionCode.CREATE_CLASS, old=cause.subject, new=cause.subject, changes=(created(tree),))


def claim_missing(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """A claim that is alike, or the claim of that name in another namespace."""
    if cause.meant:
        changes = subject.again(lambda spec: _rename(spec, _CLAIM, cause.claim, cause.meant))
        yield Suggestion(SuggestionCode.USE_CLAIM, subject.label, cause.claim, cause.meant, changes=changes)
    if cause.wanted:
        changes = subject.again(lambda spec: _named_by(spec, _CLAIM, _TEMPLATE, cause.claim))
        yield Suggestion(SuggestionCode.AS_TEMPLATE, subject.label, new=cause.claim, changes=changes)
    yield from _copied(subject, ResourceClaim, cause.claim, SuggestionCode.COPY_CLAIM)


def template_missing(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    if cause.meant:
        changes = subject.again(lambda spec: _rename(spec, _TEMPLATE, cause.subject, cause.meant))
        yield Suggestion(SuggestionCode.USE_TEMPLATE, subject.label, cause.subject, cause.meant, changes=changes)
    if cause.wanted:
        changes = subject.again(lambda spec: _named_by(spec, _TEMPLATE, _CLAIM, cause.subject))
        yield Suggestion(SuggestionCode.AS_CLAIM, subject.label, new=cause.subject, changes=changes)
    yield from _copied(subject, ResourceClaimTemplate, cause.subject, SuggestionCode.COPY_TEMPLATE)


def _copied(
    subject: WaitingPod, type_: type[ResourceClaim | ResourceClaimTemplate], name: str, code: SuggestionCode
) -> Iterator[Suggestion]:
    for one in subject.snapshot.all(type_):
        if one.metadata.name == name and one.metadata.namespace != subject.namespace and not is_controlled(one):
            tree = manifest_of(one)
            tree["metadata"]["namespace"] = subject.namespace
            yield Suggestion(code, old=one.metadata.namespace, new=name, changes=(created(tree),))


def _rename(spec: Tree, field: str, old: str, new: str) -> None:
    for entry in spec.get("resourceClaims", ()):
        if entry.get(field) == old:
            entry[field] = new


def _named_by(spec: Tree, old: str, new: str, name: str) -> None:
    """Let an entry name its claim, or its template, in the other field."""
    for entry in spec.get("resourceClaims", ()):
        if entry.get(old) == name:
            entry[new] = entry.pop(old)


def resource_unknown(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """An extended resource that is alike."""
    if not cause.meant:
        return

    def rename(spec: Tree) -> None:
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for amounts in (container.get("resources", {}).get(kind, {}) for kind in ("requests", "limits")):
                if cause.subject in amounts:
                    amounts[cause.meant] = amounts.pop(cause.subject)

    changes = subject.again(rename)
    yield Suggestion(SuggestionCode.USE_RESOURCE, subject.label, cause.subject, cause.meant, changes=changes)


# Groups


def group_missing(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """The group, as simple as it can be."""
    tree: Tree = {
        "apiVersion": PodGroup().apiVersion,
        "kind": "PodGroup",
        "metadata": {"name": cause.group, "namespace": subject.namespace},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    yield Suggestion(SuggestionCode.CREATE_GROUP, cause.group, changes=(created(tree),))


def group_claim_missing(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """A claim of the group that is alike, or the only one that it has."""
    names = [entry.name for entry in subject.group.spec.resourceClaims] if subject.group is not None else []
    meant = alike(cause.claim, names) or (names[0] if len(names) == 1 else "")
    if not meant:
        return

    def rename(spec: Tree) -> None:
        for entry in spec.get("resourceClaims", ()):
            if entry["name"] == cause.subject:
                entry["podGroupResourceClaim"] = meant

    changes = subject.again(rename)
    yield Suggestion(SuggestionCode.GROUP_CLAIM, subject.label, cause.claim, meant, changes=changes)


def gang_incomplete(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """More pods like this one, or a smaller gang."""
    missing = cause.of - cause.found
    if not is_controlled(subject.pod):
        changes = []
        for number in range(1, missing + 1):
            tree = manifest_of(subject.pod)
            tree["metadata"]["name"] = f"{subject.name}-{number}"
            changes.append(created(tree))
        yield Suggestion(SuggestionCode.MORE_MEMBERS, cause.group, number=missing, changes=tuple(changes))


# Claims that cannot be made or used


def pod_quota(subject: WaitingPod, cause: Cause, number: int) -> Iterator[Suggestion]:
    """A quota that is large enough for so many more pods."""
    found = subject.snapshot.get(ResourceQuota, cause.subject, subject.namespace)
    if found is not None:
        yield _raised(found, cause, [Quantity.parse(cause.wanted)] * number)


def claim_quota(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """A quota that is large enough for the claims of all pods that wait: they are made in no particular order."""
    found = subject.snapshot.get(ResourceQuota, cause.subject, subject.namespace)
    if found is not None:
        known = {claim.metadata.uid for claim in subject.snapshot.all(ResourceClaim)}
        unlimited = applied(subject.snapshot, [patched(found, {"spec": {"hard": {cause.request: None}}})])
        claims = [one for one in unlimited.all(ResourceClaim) if one.metadata.namespace == subject.namespace]
        missing = [usage_of(BY_TYPE[ResourceClaim], one) for one in claims if one.metadata.uid not in known]
        yield _raised(found, cause, [usage.get(cause.request, ZERO) for usage in missing])


def _raised(quota: ResourceQuota, cause: Cause, more: Iterable[Quantity]) -> Suggestion:
    needed = str(sum(more, Quantity.parse(cause.used)))
    change = patched(quota, {"spec": {"hard": {cause.request: needed}}})
    return Suggestion(SuggestionCode.RAISE_QUOTA, cause.subject, cause.request, needed, changes=(change,))


def claim_foreign(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    claim = subject.claim(cause.claim)
    if claim is not None:
        changes = (deleted(claim), *(subject.again(lambda spec: None) or (deleted(subject.pod),)))
        yield Suggestion(SuggestionCode.MAKE_CLAIM_ANEW, cause.claim, new=subject.name, changes=changes)


def claim_deleting(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """The end of those who use the claim, and a new claim of the same name."""
    claim = subject.claim(cause.claim)
    if claim is None:
        return
    users = [pod for pod in subject.snapshot.all(Pod) if podclaims.is_reserved_for(claim, pod.metadata.uid)]
    if users and not any(map(is_controlled, users)):
        changes = (*map(deleted, users), created(manifest_of(claim)))
        names = tuple(f"pod {pod.metadata.name}" for pod in users)
        yield Suggestion(SuggestionCode.CLAIM_AGAIN, cause.claim, names=names, changes=changes)


def own_claim(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """A claim of the pod's own, like the one that it cannot use."""
    claim = subject.claim(cause.claim)
    name = f"{subject.name}-{cause.claim}"
    if claim is None or is_controlled(claim) or subject.claim(name) is not None:
        return
    tree = manifest_of(claim)
    tree["metadata"] = {"name": name, "namespace": subject.namespace}
    pod = subject.again(lambda spec: _rename(spec, _CLAIM, cause.claim, name))
    changes = (created(tree), *pod) if pod else ()
    yield Suggestion(SuggestionCode.OWN_CLAIM, subject.label, cause.claim, name, changes=changes)


def own_claims(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """A claim of the pod's own in place of one of several that no node can reach together."""
    for name in cause.names:
        yield from own_claim(subject, replace(cause, claim=name))


def account(namespace: str, name: str) -> Suggestion:
    """A service account that pods need."""
    tree: Tree = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    return Suggestion(SuggestionCode.CREATE_ACCOUNT, name, changes=(created(tree),))
