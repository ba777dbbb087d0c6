"""The HTTP client and a real server behind TLS: who it believes, and who it is believed to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from dray.api.errors import Forbidden, ServiceUnavailable, Unauthorized
from dray.api.types.authentication import SelfSubjectReview, TokenRequest
from dray.api.types.core import ConfigMap, ServiceAccount
from dray.apiserver.assembly import Running, Settings
from dray.apiserver.certificates import Keys
from dray.apiserver.serving import HttpServer, Tls, listen
from dray.client.config import Config
from dray.client.credentials import Fixed
from dray.client.http import Http


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def address(keys: Keys) -> AsyncIterator[str]:
    running = await Running.open(Settings(keys=keys))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, Tls(keys.certificate_file, keys.key_file, keys.authority_file))
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
