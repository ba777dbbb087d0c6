"""Users of a test's server who may do what their rules say and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.errors import AlreadyExists
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.users import AUTHENTICATED, User
from dray.api.wire import Tree
from dray.apiserver.assembly import Running
from dray.client import Client, InProcess

ALL = ("get", "list", "watch", "create", "update", "patch", "delete")
READ = ("get", "list", "watch")


def rule(group: str, *resources: str, verbs: Iterable[str] = ALL, names: Iterable[str] = ()) -> Tree:
    """A rule of a role; group * and resource * mean all."""
    found: Tree = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return found | ({"resourceNames": [*names]} if names else {})


EVERYTHING = rule("*", "*", verbs=("*",))


async def allow(admin: Client, user: str, *rules: Tree) -> None:
    """Set what a user may do in all namespaces."""
    try:
        await admin.create(ClusterRole, {"metadata": {"name": user}, "rules": [*rules]})
    except AlreadyExists:
        await admin.patch(ClusterRole, user, {"rules": [*rules]})
        return
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    await admin.create(ClusterRoleBinding, {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]})


def user_client(server: Running, name: str) -> Client:
    """A client in the process for a user."""
    return InProcess(server.api, User(name, groups=(AUTHENTICATED,)))


def without(rules: Iterable[Tree], resource: str, *verbs: str) -> list[Tree]:
    """The rules without some verbs of a resource, or without the resource; rules must name resources one by one."""
    found = []
    for one in rules:
        others = [name for name in one.get("resources", ()) if name != resource]
        if others or "resources" not in one:
            found.append(one | ({"resources": others} if others else {}))
        if resource in one.get("resources", ()) and verbs:
            found.append(one | {"resources": [resource], "verbs": [v for v in one["verbs"] if v not in verbs]})
    return found
