"""Who asks: certificates, tokens, impersonation, and nobody."""

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from dray.api.errors import BadRequest, Forbidden, Unauthorized
from dray.api.users import ADMIN, User
from dray.apiserver.security.authentication import Authenticator, read_users
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.security.certificates import Keys
from dray.apiserver.security.tokens import TokenAuthority, TokenInvalid
from tests.apiserver.reading import Objects, account, account_subject, binding, role, rule, user_subject

JANE = User("jane", groups=("system:authenticated",))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def objects() -> Objects:
    return Objects(account("robot"))


@pytest.fixture
def tokens(objects: Objects, keys: Keys) -> TokenAuthority:
    return TokenAuthority(objects, keys.signing_key)


@pytest.fixture
def authenticator(objects: Objects, tokens: TokenAuthority) -> Authenticator:
    return Authenticator(Union(Rbac(objects)), tokens, {"secret": ADMIN, "janes": JANE})


def headers(token: str = "", **impersonation: Any) -> list[tuple[bytes, bytes]]:
    """Header names with underscores for dashes; a list of values repeats a header."""
    found = [(b"host", b"localhost"), (b"accept", b"application/json")]
    if token:
        found.append((b"authorization", f"Bearer {token}".encode()))
    for name, values in impersonation.items():
        header = name.replace("_", "-").encode()
        found += [(header, value.encode()) for value in (values if isinstance(values, list) else [values])]
    return found


def test_static_token(authenticator: Authenticator) -> None:
    assert authenticator.authenticate(headers("secret")) == ADMIN


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"secret",
        b"Bearer",
        b"Bearer ",
        b"Bearer wrong",
        b"Basic c2VjcmV0",
        b"Bearer a.b.c",
        b"\xff\xfe \x00",
        b"Bearer \xe9",
    ],
)
def test_nobody_is_anonymous(authenticator: Authenticator, header: bytes) -> None:
    with pytest.raises(Unauthorized) as caught:
        authenticator.authenticate([(b"authorization", header)] if header else [])
    assert caught.value.message == "Unauthorized"


@pytest.mark.parametrize("header", [b"bearer secret", b"BEARER secret", b"Bearer  secret "])
def test_scheme_is_read_generously(authenticator: Authenticator, header: bytes) -> None:
    assert authenticator.authenticate([(b"authorization", header)]) == ADMIN


def test_service_account_token(authenticator: Authenticator, tokens: TokenAuthority) -> None:
    token = tokens.request("default", "robot", {})["status"]["token"]
    assert authenticator.authenticate(headers(token)).name == "system:serviceaccount:default:robot"


def test_client_certificate_in_every_form(authenticator: Authenticator, keys: Keys) -> None:
    pem = keys.client("jane", ["devs", "ops"]).certificate
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    described = {
        "subject": ((("organizationName", "devs"),), (("organizationName", "ops"),), (("commonName", "jane"),)),
    }
    for form in (pem, der, described, der):
        user = authenticator.authenticate(headers(), form)
        assert user == User("jane", groups=("devs", "ops", "system:authenticated"))


def test_certificate_counts_before_a_token(authenticator: Authenticator) -> None:
    described = {"subject": ((("commonName", "jane"),),)}
    assert authenticator.authenticate(headers("secret"), described).name == "jane"


@pytest.mark.parametrize("certificate", [{"subject": ()}, {"subject": ((("organizationName", "system:masters"),),)}])
def test_certificate_without_name_is_nobody(authenticator: Authenticator, certificate: Any) -> None:
    with pytest.raises(Unauthorized):
        authenticator.authenticate(headers(), certificate)
    assert authenticator.authenticate(headers("secret"), certificate) == ADMIN


def test_certificate_that_is_none_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(Unauthorized):
        authenticator.authenticate(headers(), b"no certificate")


# Impersonation


def test_admin_becomes_anybody(authenticator: Authenticator) -> None:
    user = authenticator.authenticate(
        headers("secret", impersonate_user="bob", impersonate_group=["devs", "ops"], impersonate_uid="42")
    )
    assert user == User("bob", "42", ("devs", "ops", "system:authenticated"))


def test_service_account_gets_its_groups_and_extra_fields(authenticator: Authenticator) -> None:
    found = headers("secret", impersonate_user="system:serviceaccount:default:robot")
    found.append((b"impersonate-extra-authentication.kubernetes.io%2fnode-name", b"n1"))
    user = authenticator.authenticate(found)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/node-name": ("n1",)}


def test_anonymous_is_not_authenticated(authenticator: Authenticator) -> None:
    user = authenticator.authenticate(headers("secret", impersonate_user="system:anonymous"))
    assert user.groups == ("system:unauthenticated",)


def test_impersonation_without_user_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(BadRequest, match="Impersonate-User"):
        authenticator.authenticate(headers("secret", impersonate_group="system:masters"))


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ({"impersonate_user": "bob"}, 'users "bob" is forbidden: User "jane" cannot impersonate resource "users"'),
        ({"impersonate_user": "x", "impersonate_group": "g"}, 'groups "g" is forbidden'),
        ({"impersonate_user": "x", "impersonate_uid": "7"}, 'uids.authentication.k8s.io "7" is forbidden'),
        ({"impersonate_user": "x", "impersonate_extra_scopes": "all"}, 'resource "userextras/scopes"'),
        ({"impersonate_user": "system:serviceaccount:default:robot"}, 'serviceaccounts "robot" is forbidden'),
    ],
)
def test_every_part_of_an_identity_needs_permission(
    authenticator: Authenticator, objects: Objects, wanted: dict[str, str], refused: str
) -> None:
    objects.put(role("become-x", rule("impersonate", "users", names="x")))
    objects.put(binding("jane", "become-x", user_subject("jane")))
    assert authenticator.authenticate(headers("janes", impersonate_user="x")).name == "x"
    with pytest.raises(Forbidden) as caught:
        authenticator.authenticate(headers("janes", **wanted))
    assert refused in caught.value.message


def test_permission_for_one_extra_value(authenticator: Authenticator, objects: Objects, tokens: TokenAuthority) -> None:
    objects.put(
        role(
            "be",
            rule("impersonate", "users", names="x"),
            rule("impersonate", "userextras/scopes", "authentication.k8s.io", "view"),
        )
    )
    objects.put(binding("robot", "be", account_subject("robot", "default")))
    token = tokens.request("default", "robot", {})["status"]["token"]
    user = authenticator.authenticate(headers(token, impersonate_user="x", **{"impersonate-extra-scopes": "view"}))
    assert user.extra == {"scopes": ("view",)}
    with pytest.raises(Forbidden):
        authenticator.authenticate(headers(token, impersonate_user="x", **{"impersonate-extra-scopes": "admin"}))


# Token files and reviews


def test_token_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('# who is who\nabc,jane,42,"devs, ops"\n\ndef,bob,7\n')
    users = read_users("admin", file)
    assert users["admin"] == ADMIN
    assert users["abc"] == User("jane", "42", ("devs", "ops", "system:authenticated"))
    assert users["def"] == User("bob", "7", ("system:authenticated",))


@pytest.mark.parametrize("line", ["abc", "abc,jane", ",jane,1", "a,b,c,d,e"])
def test_bad_line_of_a_token_file_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(f"ok,bob,1\n{line}\n")
    with pytest.raises(ValueError, match="line 2: expected token,user,uid"):
        read_users("", file)


def test_static_token_is_for_this_server_only(authenticator: Authenticator, tokens: TokenAuthority) -> None:
    assert authenticator.token("secret", tokens.audiences)[1] == tokens.audiences
    with pytest.raises(TokenInvalid):
        authenticator.token("secret", ["vault"])
