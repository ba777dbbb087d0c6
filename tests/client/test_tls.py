"""The HTTP client and a real server behind TLS: who it believes, and who it is believed to be."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from dray.api.errors import Forbidden, ServiceUnavailable, Unauthorized
from dray.api.types.authentication import SelfSubjectReview, TokenRequest
from dray.api.types.core import ConfigMap, ServiceAccount
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.serving import HttpServer, ServingTls, listen
from dray.client.config import Config
from dray.client.credentials import Fixed
from dray.client.http import Http
from dray.client.tls import as_kubernetes

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def address(keys: Keys) -> AsyncIterator[str]:
    running = await Running.open(ServerSettings(keys=keys))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, ServingTls(keys.certificate_file, keys.key_file, keys.authority_file))
    await http.start()
    yield f"https://127.0.0.1:{sock.getsockname()[1]}"
    await http.stop()
    await running.close()


async def who(config: Config) -> str:
    async with Http(config) as client:
        review = await client.create(SelfSubjectReview, {})
    return review.status.userInfo.username


async def test_a_token_says_who_we_are(address: str, keys: Keys) -> None:
    config = Config(address, ca=keys.authority, credentials=Fixed.token(keys.admin_token))
    assert await who(config) == "kubernetes-admin"


async def test_a_client_certificate_says_who_we_are(address: str, keys: Keys) -> None:
    pair = keys.client("jane", ("system:masters",))
    config = Config(address, ca=keys.authority, certificate=pair.certificate, key=pair.key)
    assert await who(config) == "jane"


async def test_impersonation_makes_us_somebody_else(address: str, keys: Keys) -> None:
    config = Config(
        address,
        ca=keys.authority,
        credentials=Fixed.token(keys.admin_token),
        headers=(("Impersonate-User", "john"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
    )
    async with Http(config) as client:
        review = await client.create(SelfSubjectReview, {})
        assert (review.status.userInfo.username, {"a", "b"} <= set(review.status.userInfo.groups)) == ("john", True)
        with pytest.raises(Forbidden):
            await client.list(ConfigMap)


async def test_a_service_account_gets_a_token_and_uses_it(address: str, keys: Keys) -> None:
    async with Http(Config(address, ca=keys.authority, credentials=Fixed.token(keys.admin_token))) as admin:
        answer = await admin.create(
            ServiceAccount, {"spec": {}}, namespace="default", name="default", subresource="token"
        )
    token = cast(TokenRequest, answer).status.token
    config = Config(address, ca=keys.authority, credentials=Fixed.token(token))
    assert await who(config) == "system:serviceaccount:default:default"


async def test_a_server_of_another_authority_is_not_believed(address: str, tmp_path: Path) -> None:
    other = Keys.open(tmp_path)
    with pytest.raises(ServiceUnavailable, match="certificate verify failed"):
        await who(Config(address, ca=other.authority))


async def test_insecure_believes_anybody(address: str, keys: Keys) -> None:
    config = Config(address, insecure=True, credentials=Fixed.token(keys.admin_token))
    assert await who(config) == "kubernetes-admin"


async def test_a_wrong_token_is_refused(address: str, keys: Keys) -> None:
    with pytest.raises(Unauthorized):
        await who(Config(address, ca=keys.authority, credentials=Fixed.token("wrong")))


def bare_certificates(directory: Path) -> ServingTls:
    """An authority and a server's certificate with no more in them than must be: no identifiers of keys."""
    now, (authority_key, key) = datetime.now(UTC), (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def signed(name: str, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> x509.Certificate:
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, "bare"))
        builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number(), now, now + HOUR)
        return builder.add_extension(extension, critical=True).sign(authority_key, hashes.SHA256())

    authority = signed("bare", authority_key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    tls = ServingTls(directory / "server.crt", directory / "server.key", directory / "ca.crt")
    tls.certificate.write_bytes(signed("server", key.public_key(), address).public_bytes(Encoding.PEM))
    tls.key.write_bytes(private)
    tls.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    return tls


async def test_an_authority_without_identifiers_of_keys_is_believed_by_every_python(tmp_path: Path) -> None:
    tls = bare_certificates(tmp_path)
    running = await Running.open(ServerSettings(authenticate=False))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, tls)
    await http.start()
    config = Config(f"https://127.0.0.1:{sock.getsockname()[1]}", ca=tls.authority.read_bytes())
    assert await who(config) == "kubernetes-admin"
    await http.stop()
    await running.close()


def test_contexts_are_made_as_lenient_as_kubernetes() -> None:
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert as_kubernetes(context) is context
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
