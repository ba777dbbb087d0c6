"""A node may write only its own Node object, the status of its pods, its ResourceSlices and its Lease.

The node authorizer allows these writes by verb; this plugin checks the object. Slices are also restricted for drivers
that run on a node: a service account whose token (or impersonation) names a node may write only slices of that node.
Drivers of devices that belong to no node run on some node too, so an administrator can exempt their account with the
verb `publish-for-any-node` on resourceslices.
"""

from __future__ import annotations

from typing import cast

from dray.api.errors import not_found
from dray.api.types.authentication import TokenRequest
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod, ServiceAccount
from dray.api.types.resource import ResourceSlice
from dray.api.users import NODE_NAME
from dray.api.validation.pods import MIRROR
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, one
from dray.apiserver.security.authorization import ANY_NODE, Attributes, Union, references
from dray.apiserver.security.authorization.node import LEASES_NAMESPACE

PROTECTED_LABELS = "node-restriction.kubernetes.io"  # labels that let administrators keep pods off compromised nodes
_KUBERNETES = ("kubernetes.io", "k8s.io")  # domains of labels with a meaning for the cluster
_NODES_OWN = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODES_OWN_LABELS = frozenset(
    f"{domain}/{name}"
    for domain, names in {
        "kubernetes.io": ("hostname", "os", "arch"),
        "beta.kubernetes.io": ("os", "arch", "instance-type"),
        "topology.kubernetes.io": ("zone", "region"),
        "failure-domain.beta.kubernetes.io": ("zone", "region"),
    }.items()
    for name in names
)


class NodeRestriction(Admission):
    """Restricts users that are nodes."""

    name = "NodeRestriction"
    types = (Pod, Node, ResourceSlice, Lease, ServiceAccount)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden if a node writes an object that does not belong to it.

        Does nothing for users that are not nodes.
        """
        node = request.user.node
        if not node:
            return
        if request.concerns(Pod):
            if request.subresource == "eviction":
                self._check_eviction(request, node)
            else:
                _check_pod(request, node)
                if request.operation == "CREATE" and not request.subresource:
                    self._check_owner(request, node)
        elif request.concerns(Node):
            _check_node(request, node)
        elif request.concerns(ResourceSlice):
            _check_slice(request, node)
        elif request.concerns(Lease):
            _check_lease(request, node)
        elif request.concerns(ServiceAccount) and request.subresource == "token":
            self._check_token(request, node)

    def _check_owner(self, request: AdmissionRequest, node: str) -> None:
        """Raise Forbidden unless the node is the only owner, and the controller, of a pod that it creates.

        Also raises Forbidden if the owner reference blocks deletion of the owner, or has not the UID of the Node.
        """
        owners = cast(Pod, request.object).metadata.ownerReferences
        itself = [(owner.apiVersion, owner.kind, owner.name) == ("v1", "Node", node) for owner in owners]
        if itself != [True]:
            raise request.forbidden(f'node "{node}" can only create pods with an owner reference set to itself')
        if not owners[0].controller:
            raise request.forbidden(
                f'node "{node}" can only create pods with a controller owner reference set to itself'
            )
        if owners[0].blockOwnerDeletion:
            raise request.forbidden(f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        found = one(self._reader, Node, "", node)
        expected = found.metadata.uid if found else ""
        if owners[0].uid != expected:
            raise request.forbidden(f"node {node} UID mismatch: expected {expected} got {owners[0].uid}")

    def _check_eviction(self, request: AdmissionRequest, node: str) -> None:
        """Raise Forbidden unless the evicted pod runs on the node, and NotFound if the pod does not exist."""
        pod = one(self._reader, Pod, request.namespace, request.name)
        if pod is None:
            raise not_found(request.resource, request.name)
        if pod.spec.nodeName != node:
            raise request.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")

    def _check_token(self, request: AdmissionRequest, node: str) -> None:
        """Raise Forbidden unless a token is requested for a pod of the node, with audiences of that pod's volumes."""
        bound = cast(TokenRequest, request.object).spec.boundObjectRef
        if bound is None or (bound.apiVersion, bound.kind) != ("v1", "Pod") or not bound.name:
            raise request.forbidden("node requested token not bound to a pod")
        if not bound.uid:
            raise request.forbidden("node requested token with a pod binding without a uid")
        pod = one(self._reader, Pod, request.namespace, bound.name)
        if pod is None or pod.metadata.uid != bound.uid:
            raise request.forbidden("the UID in the bound object reference does not match the UID in record")
        if pod.spec.nodeName != node:
            raise request.forbidden("node requested token bound to a pod scheduled on a different node")
        wanted = set(cast(TokenRequest, request.object).spec.audiences or ("",))
        for audience in sorted(wanted - references.token_audiences(pod)):
            raise request.forbidden(f'audience "{audience}" not found in pod spec volumes')


class NodeSlices(Admission):
    """Restricts drivers to the ResourceSlices of their node."""

    name = "NodeSlices"
    types = (ResourceSlice,)

    def __init__(self, authorizer: Union) -> None:
        self._authorizer = authorizer

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden if a service account on a node writes slices of another node.

        The right to publish for any node is an exception.
        """
        user = request.user
        nodes = user.extra.get(NODE_NAME) if request.concerns(ResourceSlice) else None
        if not nodes or user.service_account is None:
            return
        for found in (request.object, request.old):
            target = cast(ResourceSlice, found).spec.nodeName or "" if found else nodes[0]
            if target != nodes[0] or len(nodes) > 1:
                if self._authorizer.authorize(user, Attributes(ANY_NODE, "resource.k8s.io", "resourceslices")).allowed:
                    return
                what = f"resourceslices on node '{target}'" if target else "cluster resourceslices"
                raise request.forbidden(f"this user running on node '{nodes[0]}' may not modify {what}")


def _check_pod(request: AdmissionRequest, node: str) -> None:
    """Raise Forbidden unless a node creates a mirror pod, deletes its own pod, or updates the status of its own pod."""
    new, old = cast("Pod | None", request.object), cast("Pod | None", request.old)
    if request.operation == "CREATE" and not request.subresource:
        if new and MIRROR not in new.metadata.annotations:
            raise request.forbidden(
                f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
            )
        if new and new.spec.nodeName != node:
            raise request.forbidden(f'node "{node}" can only create pods with spec.nodeName set to itself')
        if new and (named := references.first(new)):
            raise request.forbidden(f'node "{node}" can not create pods that reference {named}')
    elif old and old.spec.nodeName != node:
        verb = "delete" if request.operation == "DELETE" else "update status for"
        raise request.forbidden(f'node "{node}" can only {verb} pods with spec.nodeName set to itself')
    elif request.operation == "UPDATE" and old and new:
        _check_pod_update(request, node, old, new)
    elif request.subresource == "binding":
        raise request.forbidden(f'node "{node}" cannot bind pods')


def _check_pod_update(request: AdmissionRequest, node: str, old: Pod, new: Pod) -> None:
    """Raise Forbidden for an update other than status, or a status update that changes labels or claim statuses."""
    if request.subresource != "status":
        raise request.forbidden(f'node "{node}" can only update the status of pods')
    if old.metadata.labels != new.metadata.labels:
        raise request.forbidden(f'node "{node}" cannot update labels through pod status')
    if old.status.resourceClaimStatuses != new.status.resourceClaimStatuses:
        raise request.forbidden(f'node "{node}" cannot update resource claim statuses')
    if old.status.extendedResourceClaimStatus != new.status.extendedResourceClaimStatus:
        raise request.forbidden(f'node "{node}" cannot update extended resource claim statuses')


def _check_node(request: AdmissionRequest, node: str) -> None:
    """Raise Forbidden if a node writes another Node, deletes itself, or changes protected labels, owners or taints."""
    if request.name != node:
        raise request.forbidden(f'node "{node}" is not allowed to modify node "{request.name}"')
    if request.operation == "DELETE":
        raise request.forbidden(f'node "{node}" is not allowed to delete itself')
    new, old = cast("Node | None", request.object), cast("Node | None", request.old)
    if new is None:
        return
    before = old.metadata.labels if old else {}
    changed = {label for label, _ in before.items() ^ new.metadata.labels.items()}
    if refused := sorted(label for label in changed if not _may_set(label)):
        what = "modify labels" if old else "set the following labels on Create"
        raise request.forbidden(f'node "{node}" is not allowed to {what}: {", ".join(refused)}')
    if (old.metadata.ownerReferences if old else ()) != new.metadata.ownerReferences:
        # Without this check a node could lose its taints: if its owners are gone, garbage collection deletes the
        # Node, and a node that registers again has no taints.
        raise request.forbidden(f'node "{node}" is not allowed to modify ownerReferences')
    if old and old.spec.taints != new.spec.taints:
        raise request.forbidden(f'node "{node}" is not allowed to modify taints')


def _may_set(label: str) -> bool:
    """Return whether a node may set a label of its own Node.

    As in Kubernetes, a node may not set labels that have a meaning for the cluster, except its own labels such as
    kubernetes.io/hostname.
    """
    domain = label.rpartition("/")[0]
    if _within(domain, PROTECTED_LABELS):
        return False
    ours = label in _NODES_OWN_LABELS or any(_within(domain, own) for own in _NODES_OWN)
    return ours or not any(_within(domain, reserved) for reserved in _KUBERNETES)


def _within(domain: str, parent: str) -> bool:
    """Return whether a domain is `parent` or below it."""
    return domain == parent or domain.endswith("." + parent)


def _check_slice(request: AdmissionRequest, node: str) -> None:
    """Raise Forbidden unless the old and new ResourceSlice belong to the node."""
    for found in (request.object, request.old):
        if found and cast(ResourceSlice, found).spec.nodeName != node:
            verb = {"CREATE": "create", "UPDATE": "update"}.get(request.operation, "delete")
            raise request.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _check_lease(request: AdmissionRequest, node: str) -> None:
    """Raise Forbidden unless the Lease is the node's own."""
    if request.namespace != LEASES_NAMESPACE:
        raise request.forbidden(f'can only access leases in the "{LEASES_NAMESPACE}" system namespace')
    if request.name != node:
        raise request.forbidden("can only access node lease with the same name as the requesting node")
