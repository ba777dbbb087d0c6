"""Who may use a dashboard: users of an API server in this process, or the single user of a kubeconfig."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dray.api.errors import Unauthorized
from dray.api.wire import Tree
from dray.assembly.dashboard import credential_of
from dray.client import Client, InProcess
from dray.web.access import SessionIdentity, SignInCredentials

if TYPE_CHECKING:
    from dray.api.users import User
    from dray.apiserver.assembly import Running

Operations = Mapping[str, Sequence[Tree]]


class ServerAccess:
    """Users of the API server in this process: by token or client certificate, or the administrator without users."""

    mode = "live"

    def __init__(self, running: Running, url: str) -> None:
        self._running = running
        self.server = url

    async def admit(self, offer: SignInCredentials) -> SessionIdentity:
        """Return the identity for a token or client certificate.

        The token takes precedence. Raises Unauthorized if neither is accepted.
        """
        namespace = offer.namespace or "default"
        if offer.token:
            return await self.restore({"token": offer.token, "namespace": namespace})
        credential = credential_of(self._certified(offer.certificate), namespace)
        if offer.certificate:
            credential["until"] = ssl.cert_time_to_seconds(offer.certificate["notAfter"])
        return await self.restore(credential)

    async def restore(self, credential: Tree) -> SessionIdentity:
        """Return the identity of a stored credential.

        Raises Unauthorized if its token or certificate is no longer valid.
        """
        from dray.api.users import User

        namespace = str(credential.get("namespace", "default"))
        if "token" in credential:
            user = self._bearer(str(credential["token"]))
            return SessionIdentity(user.name, credential, user.groups, namespace)
        if credential.get("until", math.inf) <= time.time():
            raise Unauthorized("the certificate has expired")
        known = credential.get("user", {})
        user = User(known.get("name", ""), known.get("uid", ""), tuple(known.get("groups", ())))
        return SessionIdentity(user.name, credential, user.groups, namespace)

    def client(self, identity: SessionIdentity) -> Client:
        """Return a client in this process that acts as the identity."""
        from dray.api.users import User

        token = identity.credential.get("token")
        known = identity.credential.get("user", {})
        user = self._bearer(token) if token else User(identity.name, known.get("uid", ""), identity.groups)
        return InProcess(self._running.api, user, user_agent="dray-dashboard")

    def operations(self) -> Operations:
        return measured_operations()

    def _bearer(self, token: str) -> User:
        """Return the user of a bearer token.

        Raises Unauthorized if the token is invalid or the server has no users.
        """
        authenticator = self._running.http.authenticator
        if authenticator is None:
            raise Unauthorized("this server has no users: sign in without a token")
        return authenticator.authenticate([(b"authorization", b"Bearer " + token.encode("latin-1", "replace"))], None)

    def _certified(self, certificate: Any) -> User:
        """Return the user of a client certificate.

        A server without users has only the administrator. Raises Unauthorized if the certificate is missing or
        invalid.
        """
        from dray.api.users import ADMIN

        authenticator = self._running.http.authenticator
        if authenticator is None:
            return ADMIN
        if not certificate:
            raise Unauthorized("there is no session: sign in with a token")
        return authenticator.authenticate([], certificate)


class ClientAccess:
    """The single user that the API server sees. `connect` returns a client that acts as that user."""

    def __init__(
        self, connect: Callable[[], Client], identity: SessionIdentity, server: str, mode: str = "live"
    ) -> None:
        self._connect = connect
        self.identity = identity
        self.server = server
        self.mode = mode

    async def admit(self, offer: SignInCredentials) -> SessionIdentity:
        raise Unauthorized("open the address that `dray dashboard` printed; Enter prints another")

    async def restore(self, credential: Tree) -> SessionIdentity:
        if credential != self.identity.credential:
            raise Unauthorized("the session has ended")
        return self.identity

    def client(self, identity: SessionIdentity) -> Client:
        return self._connect()

    def operations(self) -> Operations:
        return measured_operations() if self.mode == "demo" else {}


def measured_operations() -> dict[str, list[Tree]]:
    """Return the measurements of drivers' operations by node agents in this process, by driver."""
    import sys

    metrics = sys.modules.get("dray.node.metrics")  # None if nothing has imported it, so nothing was measured
    if metrics is None:
        return {}
    buckets: dict[tuple[str, str], dict[float, float]] = {}
    errors: dict[tuple[str, str], float] = {}
    for family in metrics.OPERATIONS.collect():
        for sample in family.samples:
            key = sample.labels.get("driver_name", ""), sample.labels.get("method_name", "")
            if sample.name.endswith("_bucket"):
                known = buckets.setdefault(key, {})
                bound = float(sample.labels["le"])
                known[bound] = known.get(bound, 0.0) + sample.value
            elif sample.name.endswith("_count") and sample.labels.get("grpc_status_code") != "OK":
                errors[key] = errors.get(key, 0.0) + sample.value
    found: dict[str, list[Tree]] = {}
    for key, counts in buckets.items():
        found.setdefault(key[0], []).append(_operation(key[1], counts, errors.get(key, 0.0)))
    return found


def _operation(method: str, counts: Mapping[float, float], errors: float) -> Tree:
    """Return calls, errors and latencies of one method."""
    calls = max(counts.values(), default=0.0)
    return {
        "method": method,
        "calls": int(calls),
        "errors": int(errors),
        "p50": _quantile(counts, calls * 0.5),
        "p99": _quantile(counts, calls * 0.99),
    }


def _quantile(counts: Mapping[float, float], rank: float) -> float | None:
    """Return the smallest bucket bound that covers `rank` calls, or None if only the infinite one does."""
    bound = next((bound for bound in sorted(counts) if counts[bound] >= rank), float("inf"))
    return None if bound == float("inf") else bound
