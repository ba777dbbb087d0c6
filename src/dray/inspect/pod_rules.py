"""Lint rules about pods: names of claims and requests that do not exist, and claims that no container uses.

A name is only checked if the claim or template is known, from the manifests or the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.types.core import Container, Pod, PodResourceClaim
from dray.api.types.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from dray.inspect.findings import Finding
from dray.inspect.hardware import alike
from dray.inspect.snapshot import Snapshot


def pod_findings(place: str, root: str, pod: Pod, known: Snapshot, connected: bool) -> Iterator[Finding]:
    """Yield all findings about a pod's use of claims.

    `root` is the path of the pod spec in the document. With `connected`, missing claims and templates are reported
    too.
    """
    entries = {entry.name: entry for entry in pod.spec.resourceClaims}
    used: set[str] = set()
    lists = (("containers", pod.spec.containers), ("initContainers", pod.spec.initContainers))
    for field, containers in lists:
        for number, container in enumerate(containers):
            used |= {claim.name for claim in container.resources.claims}
            where = f"{root}.{field}[{number}].resources.claims"
            yield from _container(place, where, pod, container, entries, known)
    for number, entry in enumerate(pod.spec.resourceClaims):
        field = f"{root}.resourceClaims[{number}]"
        if entry.name not in used:
            text = f"{pod.kind} {pod.metadata.name}: no container uses claim {entry.name}; its devices would lie idle"
            yield Finding("warning", place, field, text)
        if connected:
            yield from _source(place, field, pod, entry, known)


def _container(
    place: str,
    where: str,
    pod: Pod,
    container: Container,
    entries: dict[str, PodResourceClaim],
    known: Snapshot,
) -> Iterator[Finding]:
    """Yield an error for each request that a container names and its claim does not have.

    Claims whose spec is unknown are ignored. `where` is the path of the container's claims.
    """
    for number, claim in enumerate(container.resources.claims):
        entry = entries.get(claim.name)
        spec = _spec(pod, entry, known) if entry is not None else None
        if spec is None or not claim.request:
            continue
        names = [request.name for request in spec.devices.requests or ()]
        if claim.request not in names:
            meant = alike(claim.request, names)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
            text = f"{pod.kind} {pod.metadata.name}: claim {claim.name} has no request {claim.request}, {hint}"
            yield Finding("error", place, f"{where}[{number}].request", text)


def _spec(pod: Pod, entry: PodResourceClaim, known: Snapshot) -> ResourceClaimSpec | None:
    """Return the claim spec that an entry refers to, by claim or template; None if unknown."""
    namespace = pod.metadata.namespace
    if entry.resourceClaimName is not None:
        claim = known.get(ResourceClaim, entry.resourceClaimName, namespace)
        return claim.spec if claim is not None else None
    template = known.get(ResourceClaimTemplate, entry.resourceClaimTemplateName or "", namespace)
    return template.spec.spec if template is not None else None


def _source(place: str, field: str, pod: Pod, entry: PodResourceClaim, known: Snapshot) -> Iterator[Finding]:
    """Yield a warning if the claim or template of an entry does not exist.

    Yields nothing about types that the user may not list.
    """
    namespace = pod.metadata.namespace
    claim, name = entry.resourceClaimName, entry.resourceClaimTemplateName
    if claim and not known.hides(ResourceClaim, namespace) and known.get(ResourceClaim, claim, namespace) is None:
        text = f"{pod.kind} {pod.metadata.name}: there is no ResourceClaim {namespace}/{entry.resourceClaimName}"
        yield Finding("warning", place, f"{field}.resourceClaimName", text)
    hidden = known.hides(ResourceClaimTemplate, namespace)
    if name and not hidden and known.get(ResourceClaimTemplate, name, namespace) is None:
        text = f"{pod.kind} {pod.metadata.name}: there is no ResourceClaimTemplate {namespace}/{name}"
        yield Finding("warning", place, f"{field}.resourceClaimTemplateName", text)
