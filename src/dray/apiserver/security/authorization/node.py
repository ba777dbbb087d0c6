"""The node authorizer: a node may read objects that its pods need, and write its own objects.

If a permission depends on the written object, it is granted by verb here and checked by the NodeRestriction admission
plugin. For all other actions of nodes there is no opinion, so that an administrator can grant more with roles. The
pod that entitles a node to an object is searched in one namespace and cached; a cached pod is verified before use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dray.api.errors import BadRequest
from dray.api.podclaims import group_name
from dray.api.resources import BY_NAME
from dray.api.selectors import parse_fields
from dray.api.types.core import PersistentVolume, Pod
from dray.api.types.rbac import PolicyRule
from dray.api.types.resource import ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.users import User
from dray.api.validation.pods import MIRROR
from dray.apiserver.read.reader import Reader, many, one
from dray.apiserver.security.authorization import ALLOWED, NO_OPINION, Attributes, Decision, references
from dray.apiserver.security.authorization.rbac import GrantTable, RoleGrant

LEASES_NAMESPACE = "kube-node-lease"
REMEMBERED = 65536

# Allowed by verb; NodeRestriction checks the written object.
_FREE = GrantTable(
    [
        RoleGrant(
            (
                PolicyRule(apiGroups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
                PolicyRule(
                    apiGroups=("authorization.k8s.io",),
                    resources=("subjectaccessreviews", "localsubjectaccessreviews"),
                    verbs=("create",),
                ),
                PolicyRule(apiGroups=("",), resources=("services",), verbs=("get", "list", "watch")),
                PolicyRule(apiGroups=("",), resources=("nodes",), verbs=("create",)),
                PolicyRule(apiGroups=("",), resources=("pods",), verbs=("create", "delete")),
                PolicyRule(apiGroups=("",), resources=("pods/eviction",), verbs=("create",)),
                PolicyRule(apiGroups=("", "events.k8s.io"), resources=("events",), verbs=("create", "update", "patch")),
                PolicyRule(apiGroups=("resource.k8s.io",), resources=("resourceslices",), verbs=("create",)),
            ),
            "node",
        )
    ]
)

NodeCheck = Callable[[str, Attributes], Decision]


class NodeAuthorizer:
    """Authorizes users that are nodes, and has no opinion on others."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._entitling: dict[tuple[str, str, str, str], str] = {}  # (node, resource, namespace, name) → pod
        self._checks: dict[tuple[str, str, str], NodeCheck] = {
            ("", "nodes", ""): self._own_node,
            ("", "nodes", "status"): self._own_node,
            ("", "pods", ""): self._own_pods,
            ("", "pods", "status"): self._own_pod_status,
            ("", "secrets", ""): self._needed_by_pod,
            ("", "configmaps", ""): self._needed_by_pod,
            ("", "serviceaccounts", ""): self._needed_by_pod,
            ("", "persistentvolumeclaims", ""): self._needed_by_pod,
            ("", "persistentvolumes", ""): self._needed_by_claim,
            ("", "serviceaccounts", "token"): self._token,
            ("resource.k8s.io", "resourceclaims", ""): self._needed_by_pod,
            ("scheduling.k8s.io", "podgroups", ""): self._needed_by_pod,
            ("resource.k8s.io", "resourceslices", ""): self._own_slices,
            ("coordination.k8s.io", "leases", ""): self._own_lease,
        }

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision on an action of a node, or no opinion for other users."""
        node = user.node
        if not node:
            return NO_OPINION
        if _FREE.find(attributes) is not None:
            return ALLOWED
        check = self._checks.get((attributes.group, attributes.resource, attributes.subresource))
        return check(node, attributes) if check else NO_OPINION

    def _own_node(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading or updating the node's own Node object.

        Lists and watches must select the node by name.
        """
        if attributes.verb in ("get", "update", "patch"):
            mine = attributes.name == node
        else:
            mine = attributes.verb in ("list", "watch") and _selects(attributes, "metadata.name", node)
        if mine:
            return ALLOWED
        verb = "modify" if attributes.verb in ("update", "patch") else "read"
        return Decision(False, f"node '{node}' cannot {verb} '{attributes.name}', only its own Node")

    def _own_pods(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading pods of the node. Other verbs get no opinion."""
        if attributes.verb in ("list", "watch"):
            mine = _selects(attributes, "spec.nodeName", node)
            return ALLOWED if mine else Decision(False, "can only list/watch pods with spec.nodeName field selector")
        if attributes.verb != "get":
            return NO_OPINION
        pod = one(self._reader, Pod, attributes.namespace, attributes.name)
        return ALLOWED if pod and pod.spec.nodeName == node else _unrelated(node)

    def _own_pod_status(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading or updating the status of a pod of the node.

        Other verbs get no opinion. A pod that does not exist is allowed, and the request fails later with NotFound.
        Decided before the write, because a patch can probe an object's content with `test`.
        """
        if attributes.verb not in ("get", "update", "patch"):
            return NO_OPINION
        pod = one(self._reader, Pod, attributes.namespace, attributes.name)
        if pod is None or pod.spec.nodeName == node:
            return ALLOWED
        verb = "get" if attributes.verb == "get" else "update"
        return Decision(False, f'node "{node}" can only {verb} status for pods with spec.nodeName set to itself')

    def _own_slices(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading, updating or deleting ResourceSlices of the node.

        Lists, watches and collective deletions must select the node. Other verbs on its slices get no opinion.
        """
        if attributes.verb in ("list", "watch", "deletecollection"):
            mine = _selects(attributes, "spec.nodeName", node)
            reason = "can only list/watch/deletecollection resourceslices with nodeName field selector"
            return ALLOWED if mine else Decision(False, reason)
        found = one(self._reader, ResourceSlice, "", attributes.name)
        if found is None or found.spec.nodeName != node:
            return _unrelated(node)
        return ALLOWED if attributes.verb in ("get", "update", "patch", "delete") else NO_OPINION

    def _own_lease(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is on the node's own Lease."""
        if attributes.namespace != LEASES_NAMESPACE:
            reason = f'can only access leases in the "{LEASES_NAMESPACE}" system namespace'
            return Decision(False, reason)
        if attributes.verb not in ("get", "create", "update", "patch", "delete"):
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        if attributes.name != node and not (attributes.verb == "create" and not attributes.name):
            return Decision(False, "can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _token(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is creating a token for a service account that a pod of the node uses."""
        if attributes.verb != "create" or not attributes.name:
            return Decision(False, "can only create tokens for individual service accounts")
        return self._related(node, "serviceaccounts", attributes.namespace, attributes.name)

    def _needed_by_pod(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading a named object that a pod of the node uses."""
        readable = ("get", "list", "watch") if attributes.resource in ("secrets", "configmaps") else ("get",)
        named = attributes.name or _selected(attributes, "metadata.name")
        if attributes.verb not in readable or not named:
            return Decision(False, "can only read resources of this type that its pods use, each by its name")
        if not attributes.namespace:  # without a namespace, a name matches objects in all namespaces
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, attributes.resource, attributes.namespace, named)

    def _needed_by_claim(self, node: str, attributes: Attributes) -> Decision:
        """Return whether the action is reading a PersistentVolume whose claim a pod of the node uses."""
        if attributes.verb != "get" or not attributes.name:
            return Decision(False, "can only read resources of this type that its pods use, each by its name")
        volume = one(self._reader, PersistentVolume, "", attributes.name)
        claim = volume.spec.claimRef if volume is not None else None
        if claim is None:
            return _unrelated(node)
        return self._related(node, "persistentvolumeclaims", claim.namespace, claim.name)

    def _related(self, node: str, resource: str, namespace: str, name: str) -> Decision:
        """Return ALLOWED if a pod on the node uses the object, else a refusal."""
        key = (node, resource, namespace, name)
        remembered = one(self._reader, Pod, namespace, self._entitling[key]) if key in self._entitling else None
        if remembered and self._uses(remembered, node, resource, name):
            return ALLOWED
        for pod in many(self._reader, Pod, namespace):
            if self._uses(pod, node, resource, name):
                if len(self._entitling) >= REMEMBERED:
                    self._entitling.clear()
                self._entitling[key] = pod.metadata.name
                return ALLOWED
        return _unrelated(node)

    def _uses(self, pod: Pod, node: str, resource: str, name: str) -> bool:
        """Return whether a pod entitles its node to an object: the pod is assigned to the node and uses the object.

        Mirror pods do not, because the node itself writes them.
        """
        if pod.spec.nodeName != node or MIRROR in pod.metadata.annotations:
            return False
        return name in self._used(pod, resource)

    def _used(self, pod: Pod, resource: str) -> Iterable[str]:
        """Return the names of objects that a pod uses.

        `resource` is "secrets", "configmaps", "serviceaccounts", "persistentvolumeclaims", "podgroups"; anything else
        stands for ResourceClaims, including those of the pod's group.
        """
        if resource == "secrets":
            return references.secrets(pod)
        if resource == "configmaps":
            return references.config_maps(pod)
        if resource == "serviceaccounts":
            return (references.service_account(pod),)
        if resource == "persistentvolumeclaims":
            return references.volume_claims(pod)
        belongs_to = group_name(pod)
        if resource == "podgroups":
            return (belongs_to,)
        group = one(self._reader, PodGroup, pod.metadata.namespace, belongs_to) if belongs_to else None
        return (*references.claims(pod), *(references.group_claims(group) if group else ()))


def _selected(attributes: Attributes, field: str) -> str:
    """Return the value that a field selector requires for a field, or "" if it requires none or is invalid.

    The selector is parsed as lists parse it, because commas may be escaped.
    """
    resource = BY_NAME.get((attributes.group, attributes.resource))
    if resource is None or not attributes.field_selector:
        return ""
    try:
        return parse_fields(resource, attributes.field_selector).exact(field) or ""
    except BadRequest:
        return ""


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    """Return whether a field selector requires this value."""
    return _selected(attributes, field) == value


def _unrelated(node: str) -> Decision:
    """Return the refusal of an object that no pod of the node uses."""
    return Decision(False, f"no relationship found between node '{node}' and this object")
