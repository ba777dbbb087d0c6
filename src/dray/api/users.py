"""User identity, established by authentication and used by all later stages.

Proving an identity is part of `authentication`, permissions are part of `authorization`.
"""

from __future__ import annotations

import msgspec

MASTERS = "system:masters"  # has all permissions, without any rule
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"
NODE_PREFIX = "system:node:"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_UID = "authentication.kubernetes.io/node-uid"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class User(msgspec.Struct, frozen=True):
    """An authenticated identity."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}  # msgspec gives each instance its own

    @property
    def node(self) -> str:
        """The name of the node that this user is, or "" if the user is not a node."""
        if NODES in self.groups and self.name.startswith(NODE_PREFIX):
            return self.name.removeprefix(NODE_PREFIX)
        return ""

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account that this user is, or None."""
        namespace, colon, name = self.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        return (namespace, name) if colon and self.name.startswith(SERVICE_ACCOUNT_PREFIX) else None

    def info(self) -> dict[str, object]:
        """Return the user as a UserInfo tree for reviews. Empty fields are left out."""
        fields = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(values) for key, values in self.extra.items()},
        }
        return {key: value for key, value in fields.items() if value}


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None
) -> User:
    """Return the user for a service account."""
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", uid, groups, extra or {})


def node_user(name: str) -> User:
    """Return the user of a node's agent."""
    return User(f"{NODE_PREFIX}{name}", groups=(NODES, AUTHENTICATED))


ADMIN = User("kubernetes-admin", groups=(MASTERS, AUTHENTICATED))
