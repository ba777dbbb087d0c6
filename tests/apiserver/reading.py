"""A cluster that holds what a test puts into it: the guards' `Reader` without a store."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from dray.api.decode import to_object
from dray.api.resources import BY_KIND, BY_TYPE, Resource
from dray.api.types.rbac import PolicyRule
from dray.api.wire import Tree, Wire
from dray.apiserver.admission.roles import uncovered
from dray.apiserver.security.authorization.rbac import GrantTable, RoleGrant
from tests import objects


class Changes:
    """When some resources were last changed."""

    def __init__(self, revisions: dict[str, int], resources: tuple[Resource, ...]) -> None:
        self._revisions, self._resources = revisions, resources

    @property
    def revision(self) -> int:
        return sum(self._revisions.get(resource.plural, 0) for resource in self._resources)


class Objects:
    """Typed objects by resource, namespace and name, with counters that tell of changes."""

    def __init__(self, *trees: Tree) -> None:
        self._objects: dict[tuple[str, str, str], Wire] = {}
        self._revisions: dict[str, int] = {}
        for tree in trees:
            self.put(tree)

    def put(self, tree: Tree) -> Any:
        """Create or replace; metadata gets a uid and a resourceVersion."""
        group, _, _ = tree["apiVersion"].rpartition("/")
        resource = BY_KIND[group, tree["kind"]]
        metadata = {"uid": str(uuid.uuid4()), **tree["metadata"], "resourceVersion": str(self._bump(resource))}
        obj = to_object(resource, {**tree, "metadata": metadata})
        self._objects[resource.plural, metadata.get("namespace", ""), metadata["name"]] = obj
        return obj

    def remove(self, type_: type[Wire], namespace: str, name: str) -> None:
        resource = BY_TYPE[type_]
        del self._objects[resource.plural, namespace, name]
        self._bump(resource)

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        return self._objects.get((resource.plural, namespace, name))

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        return [
            obj
            for (plural, where, _), obj in sorted(self._objects.items())
            if plural == resource.plural and namespace in ("", where)
        ]

    def last_change(self, *resources: Resource) -> Changes:
        return Changes(self._revisions, resources)

    def _bump(self, resource: Resource) -> int:
        self._revisions[resource.plural] = self._revisions.get(resource.plural, 0) + 1
        return self._revisions[resource.plural]


def namespace(name: str, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def node(name: str, **metadata: Any) -> Tree:
    return objects.node(name, metadata=metadata)


def account(name: str, namespace: str = "default", **fields: Any) -> Tree:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **fields}


def pod(name: str, namespace: str = "default", **more: Any) -> Tree:
    return objects.pod(name, namespace=namespace, **more)


def slice_(name: str, node: str = "", **spec: Any) -> Tree:
    return objects.resource_slice(name, node=node, pool=name, **spec)


def claim(name: str, *requests: Tree, namespace: str = "default", status: Tree | None = None) -> Tree:
    return objects.claim(name, requests=list(requests), namespace=namespace, status=status)


def exactly(name: str, device_class: str = "gpu", **fields: Any) -> Tree:
    exact = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1, **fields}
    return {"name": name, "exactly": exact}


RBAC = "rbac.authorization.k8s.io"


def role(name: str, *rules: Tree, namespace: str = "", **fields: Any) -> Tree:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    metadata |= fields.pop("metadata", {})
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules), **fields}


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Tree:
    """Space-separated lists; `.` stands for the core group."""
    row = {"verbs": verbs.split(), "apiGroups": [g.strip(".") for g in groups.split()] or [""]}
    return {**row, "resources": resources.split(), **({"resourceNames": names.split()} if names else {})}


def binding(name: str, to: str, *subjects: Tree, namespace: str = "", kind: str = "") -> Tree:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind or ("Role" if namespace else "ClusterRole"), "name": to},
        "subjects": list(subjects),
    }


def user_subject(name: str) -> Tree:
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def group_subject(name: str) -> Tree:
    return {"kind": "Group", "apiGroup": RBAC, "name": name}


def account_subject(name: str, namespace: str) -> Tree:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def not_held(owned: Sequence[PolicyRule], wanted: PolicyRule, beside: Sequence[PolicyRule] = ()) -> list[PolicyRule]:
    """What of a rule somebody lacks who owns rules in the whole cluster, and others `beside` in the namespace."""
    work = uncovered([GrantTable([RoleGrant(tuple(rules), "")]) for rules in (owned, beside)], [wanted])
    while True:
        try:
            next(work)
        except StopIteration as end:
            missing: list[PolicyRule] = end.value
            return missing
