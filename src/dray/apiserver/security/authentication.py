"""Authentication: from the headers and client certificate of a connection to a User, or 401.

A client certificate counts first, then a bearer token: from a token file, or of a service account. Impersonation
replaces the user here, so later steps see only the impersonated user. Anonymous requests are rejected. The TLS layer
verifies certificates against the cluster's CA. OpenID Connect is not supported.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dray.api.errors import BadRequest, Unauthorized
from dray.api.users import (
    ADMIN,
    AUTHENTICATED,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
    User,
)
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.tokens import TokenAuthority, TokenInvalid, unauthorized
from dray.files import read_text

RawHeaders = Iterable[tuple[bytes, bytes]]  # lower-case names, as in ASGI
Certificate = Mapping[str, Any] | bytes  # the peer certificate as described by `ssl`, in DER, or in PEM

ANONYMOUS = "system:anonymous"
EXTRA_PREFIX = b"impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"
REMEMBERED = 1024  # cached users of encoded certificates


class Authenticator:
    """Determines the user of a request."""

    def __init__(
        self, authorizer: Union, tokens: TokenAuthority | None = None, users: Mapping[str, User] | None = None
    ) -> None:
        """`users` maps bearer tokens to users."""
        self._authorizer = authorizer
        self._tokens = tokens
        self._users = dict(users or {})
        self._headers = {f"Bearer {token}".encode(): user for token, user in self._users.items()}
        self._certificates: dict[bytes, User] = {}

    def authenticate(self, headers: RawHeaders, certificate: Certificate | None = None) -> User:
        """Return the user of a request: of the client certificate if it names one, else of the bearer token.

        Impersonation headers replace the user. Raises Unauthorized, Forbidden for an impersonation that is not
        allowed, or BadRequest for one without a user name.
        """
        token = b""
        impersonation: list[tuple[bytes, bytes]] = []
        for name, value in headers:
            if name == b"authorization":
                token = value
            elif name.startswith(b"impersonate-"):
                impersonation.append((name, value))
        user = self._certified(certificate) if certificate else None
        if user is None:
            user = self._bearer(token)
        return self._impersonate(user, impersonation) if impersonation else user

    def token(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Return the user of a bearer token, and for which of the audiences the token is valid.

        Without audiences, those of the server are meant. Raises TokenInvalid if the token is unknown, expired or
        valid for none of the audiences.
        """
        if user := self._users.get(token):
            own = self._tokens.audiences if self._tokens else ()
            meant_for = tuple(audience for audience in audiences if audience in own) if audiences else own
            if audiences and not meant_for:
                raise TokenInvalid("the token is meant for this server only")
            return user, meant_for
        if self._tokens is None or token.count(".") != 2:
            raise TokenInvalid("unknown token")
        return self._tokens.verify(token, audiences)

    def _bearer(self, header: bytes) -> User:
        """Return the user of an Authorization header.

        Raises Unauthorized if the header is empty, has another scheme than Bearer, or its token is invalid.
        """
        if user := self._headers.get(header):
            return user
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            raise unauthorized()
        try:
            return self.token(token.strip())[0]
        except TokenInvalid as error:
            raise unauthorized() from error

    def _certified(self, certificate: Certificate) -> User | None:
        """Return the user of a client certificate, or None if its subject has no common name.

        Raises Unauthorized if the certificate cannot be read.
        """
        if not isinstance(certificate, bytes):
            return _subject(certificate)
        user = self._certificates.get(certificate)
        if user is None:
            user = _parsed(certificate)
            if len(self._certificates) >= REMEMBERED:
                self._certificates.clear()
            if user:
                self._certificates[certificate] = user
        return user

    def _impersonate(self, user: User, headers: Sequence[tuple[bytes, bytes]]) -> User:
        """Return the impersonated user with its groups. Raises Forbidden unless `user` may impersonate it."""
        wanted = impersonated(headers)
        for attributes in _needed(wanted):
            self._authorizer.check(user, attributes)
        return _complete(wanted)


def read_users(admin_token: str = "", csv_file: Path | str | None = None) -> dict[str, User]:
    """Return users by bearer token: the administrator, and the users in a token file.

    Without an `admin_token` there is no administrator. A line of the file is `token,user,uid[,"group1,group2"]`;
    empty lines and lines that start with # are skipped. Raises ValueError that names an invalid line.
    """
    users = {admin_token: ADMIN} if admin_token else {}
    if csv_file is None:
        return users
    with io.StringIO(read_text(csv_file), newline="") as stream:
        for number, row in enumerate(csv.reader(stream, skipinitialspace=True), 1):
            if not row or row[0].startswith("#"):
                continue
            if not 3 <= len(row) <= 4 or not row[0] or not row[1]:
                raise ValueError(f'{csv_file}, line {number}: expected token,user,uid[,"group1,group2"]')
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) == 4 else ()
            users[row[0]] = User(row[1], row[2], (*groups, AUTHENTICATED))
    return users


def impersonated(headers: Sequence[tuple[bytes, bytes]]) -> User:
    """Return the user named by Impersonate headers. Raises BadRequest without a user name."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, raw in headers:
        value = raw.decode("latin-1")
        if header == b"impersonate-user":
            name = value
        elif header == b"impersonate-uid":
            uid = value
        elif header == b"impersonate-group":
            groups.append(value)
        elif header.startswith(EXTRA_PREFIX):
            key = unquote(header[len(EXTRA_PREFIX) :].decode("latin-1")).lower()
            extra[key] = (*extra.get(key, ()), value)
    if not name:
        raise BadRequest("impersonating a group, uid or extra field needs the header Impersonate-User too")
    return User(name, uid, tuple(groups), extra)


def _needed(wanted: User) -> Iterable[Attributes]:
    """Yield the permissions that are required to impersonate a user."""
    if account := wanted.service_account:
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", resource="users", name=wanted.name)
    for group in wanted.groups:
        yield Attributes("impersonate", resource="groups", name=group)
    if wanted.uid:
        yield Attributes("impersonate", AUTHENTICATION, "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes("impersonate", AUTHENTICATION, "userextras", key, name=value)


def _complete(wanted: User) -> User:
    """Return the user with the implied groups, such as system:authenticated.

    A service account gets the groups of service accounts only if no group is named.
    """
    groups = list(wanted.groups)
    if not groups and (account := wanted.service_account):
        groups += [SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{account[0]}"]
    everybody = UNAUTHENTICATED if wanted.name == ANONYMOUS else AUTHENTICATED
    if everybody not in groups and UNAUTHENTICATED not in groups:
        groups.append(everybody)
    return User(wanted.name, wanted.uid, tuple(groups), wanted.extra)


def _subject(certificate: Mapping[str, Any]) -> User | None:
    """Return the user of a certificate in the form of `ssl.SSLSocket.getpeercert`, or None without a common name."""
    names = [attribute for relative in certificate.get("subject", ()) for attribute in relative]
    common = [value for kind, value in names if kind == "commonName"]
    return _certificate_user(common, [value for kind, value in names if kind == "organizationName"])


def _parsed(encoded: bytes) -> User | None:
    """Return the user of a certificate in DER or PEM, or None without a common name. Raises Unauthorized."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    load = x509.load_pem_x509_certificate if encoded.startswith(b"-----") else x509.load_der_x509_certificate
    try:
        subject = load(encoded).subject
    except ValueError as error:
        raise Unauthorized("Unauthorized") from error
    common, organizations = (
        [str(attribute.value) for attribute in subject.get_attributes_for_oid(kind)]
        for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    return _certificate_user(common, organizations)


def _certificate_user(names: Sequence[str], groups: Sequence[str]) -> User | None:
    """Return the User of a client certificate, or None without a common name.

    The last common name is the user name; groups are the organizations and system:authenticated.
    """
    return User(names[-1], groups=(*groups, AUTHENTICATED)) if names and names[-1] else None
