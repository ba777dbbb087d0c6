"""Interfaces that the command line implements: who may sign in as which identity, and the facts behind an answer.

`Access` knows identities and creates the client of each. Cookies and codes are in `sessions`; `analyst` answers
questions.
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
    """A question that cannot be answered. `field` names the invalid part of the question."""

    def __init__(self, text: str, field: str = "", *, code: str = "BadRequest", status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.field = field
        self.code = code
        self.status = status


class SessionIdentity(msgspec.Struct, frozen=True):
    """Identity of a session. `credential` is stored in the encrypted cookie and suffices to restore the identity."""

    name: str
    credential: Tree
    groups: tuple[str, ...] = ()
    namespace: str = "default"

    @property
    def key(self) -> bytes:
        """Key of the picture that sessions with the same rights share."""
        return msgspec.json.encode((self.name, self.groups, self.namespace, self.credential.get("token", "")))


class SignInCredentials(msgspec.Struct, frozen=True):
    """Credentials at sign-in: a token, a client certificate, or neither."""

    token: str = ""
    namespace: str = ""
    certificate: Any = None


class Access(Protocol):
    """Decides who may sign in. Methods raise `dray.api.errors.Unauthorized`."""

    @property
    def server(self) -> str:
        """Address of the API server, for display."""
        ...

    @property
    def mode(self) -> str:
        """Source of the data: `live`, `recording` or `demo`."""
        ...

    async def admit(self, offer: SignInCredentials) -> SessionIdentity: ...

    async def restore(self, credential: Tree) -> SessionIdentity:
        """Return the identity of a session's credential. Raises Unauthorized if it is no longer valid."""
        ...

    def client(self, identity: SessionIdentity) -> Client: ...

    def operations(self) -> Mapping[str, Sequence[Tree]]:
        """Return measurements of drivers' operations, by driver; empty if nothing is measured."""
        ...


class ClusterFacts(msgspec.Struct, frozen=True):
    """The facts that answer a question: objects by type, and the types that could not be read or do not exist.

    `partial` are types of which the user may read only one namespace. Types that a question does not need are in none
    of these. `key` identifies whose objects these are, so that an analyst with a copy needs only changes. `pools` has
    the devices of each pool as published; `number_of` returns the row number of a device.
    """

    key: str
    objects: Mapping[type[Any], Sequence[Any]]
    unreadable: frozenset[type[Any]]
    unserved: frozenset[type[Any]]
    partial: frozenset[type[Any]]
    pools: Mapping[PoolName, PublishedPool]
    number_of: Callable[[DeviceId], int | None]


class WaitingCause(msgspec.Struct, frozen=True):
    """Why pods wait: a code and a text."""

    code: str
    text: str
