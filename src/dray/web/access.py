"""What the command line injects: who may look at the cluster, and as whom; and what a question is answered from.

`Access` knows identities and gives each its client. Left out: cookies and codes (`sessions`), which are the same
everywhere, and who answers (`analyst`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from dray.api.allocations import DeviceId
from dray.api.availability import PublishedPool
from dray.api.pools import PoolName
from dray.api.wire import Tree
from dray.client import Client


class QuestionError(Exception):
    """A question that cannot be answered; `field` names the part of it that is wrong."""

    def __init__(self, text: str, field: str = "", *, code: str = "BadRequest", status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.field = field
        self.code = code
        self.status = status


class SessionIdentity(msgspec.Struct, frozen=True):
    """Whom a session stands for. `credential` is what the sealed cookie holds: enough to become this identity again."""

    name: str
    credential: Tree
    groups: tuple[str, ...] = ()
    namespace: str = "default"

    @property
    def key(self) -> bytes:
        """Sessions with equal keys share a picture: they may read the same."""
        return msgspec.json.encode((self.name, self.groups, self.namespace, self.credential.get("token", "")))


class SignInCredentials(msgspec.Struct, frozen=True):
    """What somebody signs in with: a token, a certificate of the connection, or nothing."""

    token: str = ""
    namespace: str = ""
    certificate: Any = None


class Access(Protocol):
    """Who may sign in. Methods raise `dray.api.errors.Unauthorized`."""

    @property
    def server(self) -> str:
        """The address of the API server, for people."""
        ...

    @property
    def mode(self) -> str:
        """`live`, `recording` or `demo`."""
        ...

    async def admit(self, offer: SignInCredentials) -> SessionIdentity: ...

    async def restore(self, credential: Tree) -> SessionIdentity:
        """The identity of a session, if it may still have one."""
        ...

    def client(self, identity: SessionIdentity) -> Client: ...

    def operations(self) -> Mapping[str, Sequence[Tree]]:
        """What is measured of drivers' work, by driver; empty where nobody measures."""
        ...


class ClusterFacts(msgspec.Struct, frozen=True):
    """What a question is answered from: objects by type, and which types could not be read, or do not exist.

    `partial` are the types of which only one namespace was read, since the user may not see the others. Types that the question does not need are in none of these.
    `key` says whose objects these are, so that an analyst who has a copy needs only what changed. `pools` and `number_of`
    give the devices of each pool as they are published, and their numbers.
    """

    key: str
    objects: Mapping[type[Any], Sequence[Any]]
    unreadable: frozenset[type[Any]]
    unserved: frozenset[type[Any]]
    partial: frozenset[type[Any]]
    pools: Mapping[PoolName, PublishedPool]
    number_of: Callable[[DeviceId], int | None]


class WaitingCause(msgspec.Struct, frozen=True):
    """Why pods wait."""

    code: str
    text: str
