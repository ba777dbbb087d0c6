"""Service account tokens: JWTs signed by the server, valid as long as the objects they are bound to exist.

A token names its service account by UID and may be bound to a pod or node; if one of these is deleted, the token is
invalid regardless of its expiry. A token's signature is checked once (`jwt` and `cryptography` are imported at that
time); expiry and existence are checked on every use. Legacy tokens in Secrets are not supported, and signing keys are
not published.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from dray.api.errors import BadRequest, Conflict, Invalid, Unauthorized, invalid, not_found
from dray.api.resources import BY_NAME, BY_TYPE, Resource
from dray.api.times import timestamp
from dray.api.types.authentication import BoundObjectReference, TokenRequest, TokenRequestSpec
from dray.api.types.core import Node, Pod, ServiceAccount
from dray.api.users import (
    CREDENTIAL_ID,
    NODE_NAME,
    NODE_UID,
    POD_NAME,
    POD_UID,
    User,
    service_account_user,
)
from dray.apiserver.read.reader import Reader, one

ISSUER = "https://kubernetes.default.svc.cluster.local"
DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 2**32
REMEMBERED = 8192  # verified tokens: a few megabytes, and more than most clusters have pods
TOKEN_REQUEST = Resource(TokenRequest)  # for error texts

BoundObject = tuple[str, str]  # name, UID


class TokenClaims(msgspec.Struct, frozen=True):
    """Contents of a token with a valid signature."""

    namespace: str
    account: BoundObject
    audiences: tuple[str, ...]
    expires: float
    id: str
    pod: BoundObject | None = None
    node: BoundObject | None = None


class TokenInvalid(Exception):
    """The reason why a token is invalid. Never shown to the client that presents the token."""


class TokenAuthority:
    """Issues and verifies the tokens of one cluster."""

    audiences = (ISSUER,)

    def __init__(self, reader: Reader, signing_key: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._reader = reader
        self._signing_key = signing_key
        self._clock = clock
        self._verified: dict[str, TokenClaims] = {}

    def request(self, namespace: str, name: str, tree: dict[str, Any]) -> dict[str, Any]:
        """Return the answered TokenRequest for a service account; `tree` is the posted body.

        Raises NotFound if the account does not exist, BadRequest or Invalid if the body is not acceptable.
        """
        account = one(self._reader, ServiceAccount, namespace, name)
        if account is None:
            raise not_found(BY_TYPE[ServiceAccount], name)
        spec = self._spec(name, tree)
        pod, node = self._bound(account, spec.boundObjectRef)
        now = int(self._clock())
        expires = now + (spec.expirationSeconds or DEFAULT_SECONDS)
        audiences = spec.audiences or self.audiences
        claims = TokenClaims(namespace, (name, account.metadata.uid), audiences, expires, str(uuid.uuid4()), pod, node)
        answer: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": _time(now)},
            "spec": {
                "audiences": list(audiences),
                "expirationSeconds": expires - now,
                "boundObjectRef": msgspec.to_builtins(spec.boundObjectRef),
            },
            "status": {"token": self._sign(claims, now), "expirationTimestamp": _time(expires)},
        }
        return answer

    def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and for which of the audiences it is valid.

        Without audiences, the server's own are checked. Raises TokenInvalid if the token is malformed or expired, is
        valid for none of the audiences, or belongs to an object that no longer exists.
        """
        claims = self._verified.get(token) or self._remember(token)
        if claims.expires <= self._clock():
            self._verified.pop(token, None)
            raise TokenInvalid("the token has expired")
        meant_for = tuple(audience for audience in audiences or self.audiences if audience in claims.audiences)
        if not meant_for:
            raise TokenInvalid("the token is meant for somebody else")
        self._check_existence(claims)
        return _user(claims), meant_for

    def _spec(self, name: str, tree: dict[str, Any]) -> TokenRequestSpec:
        """Return the spec of a TokenRequest.

        Raises BadRequest if it cannot be decoded, Invalid if expirationSeconds is out of range.
        """
        try:
            spec = msgspec.convert(tree, TokenRequest).spec
        except msgspec.ValidationError as error:
            raise BadRequest(f"TokenRequest cannot be decoded: {error}") from error
        seconds = spec.expirationSeconds
        problem = ""
        if seconds is not None and seconds < SHORTEST_SECONDS:
            problem = "may not specify a duration less than 10 minutes"
        elif seconds is not None and seconds > LONGEST_SECONDS:
            problem = "may not specify a duration larger than 2^32 seconds"
        if problem:
            raise Invalid(TOKEN_REQUEST, name, [invalid("spec.expirationSeconds", seconds, problem)])
        return spec

    def _bound(
        self, account: ServiceAccount, ref: BoundObjectReference | None
    ) -> tuple[BoundObject | None, BoundObject | None]:
        """Return the pod and the node that a new token is bound to, each None if not bound.

        A token for a pod is also bound to the pod's node. Raises BadRequest if `ref` is neither a Pod nor a Node, or
        if the pod runs with another service account.
        """
        if ref is None:
            return None, None
        if (ref.apiVersion, ref.kind) not in (("v1", "Pod"), ("v1", "Node")):
            raise BadRequest(f'cannot bind token for serviceaccount to object "{ref.apiVersion}, Kind={ref.kind}"')
        if ref.kind == "Node":
            return None, _match(ref, one(self._reader, Node, "", ref.name), "nodes")
        pod = one(self._reader, Pod, account.metadata.namespace, ref.name)
        bound = _match(ref, pod, "pods")
        if pod is None or pod.spec.serviceAccountName != account.metadata.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account.metadata.name}" to pod running with different '
                "serviceaccount name."
            )
        node = one(self._reader, Node, "", pod.spec.nodeName) if pod.spec.nodeName else None
        return bound, (pod.spec.nodeName, node.metadata.uid if node else "") if pod.spec.nodeName else None

    def _check_existence(self, claims: TokenClaims) -> None:
        """Raise TokenInvalid if the service account, or the pod or node that the token is bound to, is gone."""
        account = one(self._reader, ServiceAccount, claims.namespace, claims.account[0])
        if account is None or account.metadata.uid != claims.account[1]:
            raise TokenInvalid("the service account is gone")
        if claims.pod:
            pod = one(self._reader, Pod, claims.namespace, claims.pod[0])
            if pod is None or pod.metadata.uid != claims.pod[1]:
                raise TokenInvalid("the pod that the token is bound to is gone")
        elif claims.node:
            node = one(self._reader, Node, "", claims.node[0])
            if node is None or node.metadata.uid != claims.node[1]:
                raise TokenInvalid("the node that the token is bound to is gone")

    @cached_property
    def _private_key(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        return load_pem_private_key(self._signing_key, None)

    def _sign(self, claims: TokenClaims, now: int) -> str:
        """Return the signed JWT for claims."""
        import jwt

        account, pod, node = ({"name": bound[0], "uid": bound[1]} if bound else None for bound in _bindings(claims))
        bound_to = {"namespace": claims.namespace, "serviceaccount": account, "pod": pod, "node": node}
        payload = {
            "iss": ISSUER,
            "sub": service_account_user(claims.namespace, claims.account[0]).name,
            "aud": list(claims.audiences),
            "iat": now,
            "nbf": now,
            "exp": int(claims.expires),
            "jti": claims.id,
            "kubernetes.io": {key: value for key, value in bound_to.items() if value},
        }
        return jwt.encode(payload, self._private_key, algorithm="ES256")

    def _remember(self, token: str) -> TokenClaims:
        """Return the claims of a token and cache them. Raises TokenInvalid."""
        claims = self._check_signature(token)
        if len(self._verified) >= REMEMBERED:
            del self._verified[next(iter(self._verified))]
        self._verified[token] = claims
        return claims

    def _check_signature(self, token: str) -> TokenClaims:
        """Return the claims of a token. Raises TokenInvalid for an invalid signature or form.

        `verify` checks audience and expiry on every use. The start of validity is not checked, so that clocks of two
        servers may differ.
        """
        import jwt

        try:
            payload = jwt.decode(
                token,
                self._private_key.public_key(),
                algorithms=["ES256"],
                issuer=ISSUER,
                options={
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "require": ["exp", "iss", "sub", "jti"],
                },
            )
            return _claims(payload)
        except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
            raise TokenInvalid(str(error)) from error


def unauthorized() -> Unauthorized:
    """Return the error for a failed authentication. Its text gives no reason."""
    return Unauthorized("Unauthorized")


def _claims(payload: dict[str, Any]) -> TokenClaims:
    """Return the claims in a JWT payload. Raises KeyError, TypeError or ValueError if it is malformed."""
    bound_to = payload["kubernetes.io"]
    account, pod, node = (
        (part["name"], part["uid"]) if part else None
        for part in (bound_to["serviceaccount"], bound_to.get("pod"), bound_to.get("node"))
    )
    if account is None:
        raise ValueError("the token names no service account")
    audiences = tuple(payload["aud"])
    return TokenClaims(bound_to["namespace"], account, audiences, float(payload["exp"]), payload["jti"], pod, node)


def _bindings(claims: TokenClaims) -> tuple[BoundObject, BoundObject | None, BoundObject | None]:
    """Return service account, pod and node of the claims; pod and node are None if the token is not bound to them."""
    return claims.account, claims.pod, claims.node


def _user(claims: TokenClaims) -> User:
    """Return the service account as a User, with pod and node in its extra fields."""
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.id}",)}
    for bound, name, uid in ((claims.node, NODE_NAME, NODE_UID), (claims.pod, POD_NAME, POD_UID)):
        if bound:
            extra[name] = (bound[0],)
            if bound[1]:
                extra[uid] = (bound[1],)
    return service_account_user(claims.namespace, claims.account[0], claims.account[1], extra)


def _match(ref: BoundObjectReference, found: Pod | Node | None, plural: str) -> BoundObject:
    """Return name and UID of a bound object. `found` is None if the object does not exist.

    Raises NotFound in that case, or Conflict if the object has another UID than `ref` (if `ref` has one).
    """
    if found is None:
        raise not_found(BY_NAME["", plural], ref.name)
    if ref.uid and ref.uid != found.metadata.uid:
        raise Conflict(
            f'Operation cannot be fulfilled on {plural} "{ref.name}": the UID in the bound object reference '
            f"({ref.uid}) does not match the UID in record. The object might have been deleted and then recreated",
            name=ref.name,
            kind=plural,
        )
    return found.metadata.name, found.metadata.uid


def _time(seconds: int) -> str:
    return timestamp(seconds)
