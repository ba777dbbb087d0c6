"""Allocation of the claims in manifests on one node, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dray.allocator import Allocated, AllocationOutcome, Features, allocate
from dray.api.allocations import taken_by_all, together
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.inspect.snapshot import Snapshot

NamespacedName = tuple[str, str]


class UnclearManifests(ValueError):
    """The manifests do not define what to allocate, or on which node. The message names what is missing."""


class ClaimsAnswer(msgspec.Struct, frozen=True):
    """Allocation result for the claims of one pod (`id` is NAMESPACE/NAME), or for all claims (`id` is `claims`)."""

    id: str
    claims: tuple[ResourceClaim, ...]
    outcome: AllocationOutcome


def allocations(
    manifests: Snapshot, node: Node, gates: FeatureGates | None = None, steps: int | None = None
) -> Iterator[ClaimsAnswer]:
    """Allocate the claims of each pod, one pod after the other; without pods, all claims together.

    Yields an answer for each.

    Each allocation may take `steps` steps. Claims that are already allocated are skipped. Raises UnclearManifests.
    """
    features = Features.from_gates((gates or FeatureGates()).enabled)
    taken = taken_by_all(manifests.all(ResourceClaim))
    classes, slices = manifests.all(DeviceClass), manifests.all(ResourceSlice)
    for id_, claims in _asked(manifests):
        outcome = allocate(node, claims, classes, slices, taken.devices, features, steps, taken.shares)
        if isinstance(outcome, Allocated):
            taken = together([taken, *outcome.taken])
        yield ClaimsAnswer(id_, tuple(claims), outcome)


def node_of(manifests: Snapshot, name: str | None) -> Node:
    """Return the node of this name, or the only node if `name` is None. Raises UnclearManifests.

    A name is not refused if the manifests have no nodes; the node then has no labels. UnclearManifests is raised if
    there is no such node, or not exactly one node to choose.
    """
    nodes = {node.metadata.name: node for node in manifests.all(Node)}
    if name is None:
        if len(nodes) != 1:
            raise UnclearManifests(
                f"--node is needed to choose one of {', '.join(nodes)}" if nodes else "--node is needed"
            )
        return next(iter(nodes.values()))
    if name in nodes:
        return nodes[name]
    if nodes:
        raise UnclearManifests(f"there is no node {name}; the manifests have {', '.join(nodes)}")
    return Node(metadata=ObjectMeta(name=name))  # the manifests describe no node, so this node has no labels


def _asked(manifests: Snapshot) -> Iterator[tuple[str, list[ResourceClaim]]]:
    """Yield the unallocated claims of each pod; without pods, all unallocated claims together.

    The text is namespace/name of the pod, or "claims". A claim is yielded only with the first pod that uses it.
    Raises UnclearManifests if there are neither pods nor unallocated claims.
    """
    pods = manifests.all(Pod)
    allocated = {_key(claim) for claim in manifests.all(ResourceClaim) if claim.status.allocation is not None}
    if not pods:
        pending = [claim for claim in manifests.all(ResourceClaim) if _key(claim) not in allocated]
        if not pending:
            raise UnclearManifests("the manifests ask for nothing: no Pod, and no ResourceClaim without an allocation")
        yield "claims", pending
    done = allocated
    for pod in pods:
        claims = {_key(claim): claim for claim in _claims_of(pod, manifests)}
        yield (
            f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}",
            [claim for key, claim in claims.items() if key not in done],
        )
        done = done | claims.keys()


def _claims_of(pod: Pod, manifests: Snapshot) -> Iterable[ResourceClaim]:
    """Yield the claims of a pod, generating those from templates.

    Raises UnclearManifests if a claim or template is missing.
    """
    namespace = pod.metadata.namespace
    for entry in pod.spec.resourceClaims:
        if entry.resourceClaimName:
            claim = manifests.get(ResourceClaim, entry.resourceClaimName, namespace)
            if claim is None:
                raise UnclearManifests(f"pod {pod.metadata.name}: there is no ResourceClaim {entry.resourceClaimName}")
            yield claim
        elif entry.resourceClaimTemplateName:
            template = manifests.get(ResourceClaimTemplate, entry.resourceClaimTemplateName, namespace)
            if template is None:
                wanted = entry.resourceClaimTemplateName
                raise UnclearManifests(f"pod {pod.metadata.name}: there is no ResourceClaimTemplate {wanted}")
            meta = ObjectMeta(name=f"{pod.metadata.name}-{entry.name}", namespace=namespace)
            yield ResourceClaim(metadata=meta, spec=template.spec.spec)


def _key(claim: ResourceClaim) -> NamespacedName:
    return claim.metadata.namespace, claim.metadata.name
