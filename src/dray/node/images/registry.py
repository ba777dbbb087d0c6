"""Images from registries through the OCI distribution protocol: anonymous, with a token, or with a password.

The digest of every manifest and blob is checked. Registries on this machine are contacted over plain HTTP, others
over TLS; a mirror may replace a registry. Left out: pushing images, and resuming downloads.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from dray.node.images.archives import FoundImage, Layer
from dray.node.images.manifest import (
    INDEXES,
    MANIFESTS,
    MOST_MANIFEST_BYTES,
    Descriptor,
    ImageError,
    ImageIndex,
    Manifest,
    check_digest,
    choose,
    decoded,
    hasher,
    is_index,
)
from dray.node.images.reference import DEFAULT_REGISTRY, ImageName

_ACCEPT = ", ".join((*MANIFESTS, *INDEXES))
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_MOST_BLOB_BYTES = 32 << 30
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=30, sock_read=60)
ANY = "*"


class Credential(NamedTuple):
    """User name and password for a registry. Both empty: anonymous."""

    user: str = ""
    password: str = ""


class Registries:
    """The registries from which images may come, by host, each with the URL of a mirror or ""."""

    def __init__(self, allowed: Mapping[str, str]) -> None:
        self._allowed = allowed

    def allows(self, name: ImageName) -> bool:
        return name.registry in self._allowed or ANY in self._allowed

    async def pull(
        self, name: ImageName, credentials: Sequence[Credential], directory: Path, known: Sequence[str] = ()
    ) -> FoundImage | str:
        """Download an image into a directory and return it, or return only its digest if the digest is in `known`.

        Tries each credential, then no credential. Raises `ImageError` if none works.
        """
        problems = []
        for credential in (*credentials, Credential()):
            async with self._repository(name, credential) as repository:
                try:
                    return await repository.image(name, directory, known)
                except _Denied as error:
                    problems.append(str(error))
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    raise ImageError(
                        f'failed to do request: Get "{repository.url}": {error or type(error).__name__}'
                    ) from error
        raise ImageError(problems[0])

    @asynccontextmanager
    async def _repository(self, name: ImageName, credential: Credential) -> AsyncIterator[_Repository]:
        base = self._allowed.get(name.registry, "") or _usual(name.registry)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False) as session:
            yield _Repository(session, f"{base.rstrip('/')}/v2/{name.repository}", name, credential)


def _usual(registry: str) -> str:
    """Return the default URL of a registry: with http on this machine (localhost or a loopback address), else https."""
    if registry == DEFAULT_REGISTRY:
        return "https://registry-1.docker.io"
    host = urlsplit(f"//{registry}").hostname or ""
    local = host == "localhost"
    with contextlib.suppress(ValueError):
        local = ipaddress.ip_address(host).is_loopback
    return f"{'http' if local else 'https'}://{registry}"


class _Denied(ImageError):
    """The registry refuses access with this credential."""


class _Repository:
    """One repository of a registry, accessed with one credential."""

    def __init__(self, session: aiohttp.ClientSession, url: str, name: ImageName, credential: Credential) -> None:
        self._session = session
        self.url = url
        self._name = name
        self._credential = credential
        self._authorization = ""

    async def image(self, name: ImageName, directory: Path, known: Sequence[str]) -> FoundImage | str:
        data, media_type = await self._manifest(name.digest or name.tag)
        digest = name.digest or f"sha256:{hashlib.sha256(data).hexdigest()}"
        check_digest(data, digest, name.full)
        if is_index(data, media_type):
            chosen = choose(decoded(data, ImageIndex, name.full), name.full)
            data, _ = await self._manifest(chosen.digest)
            check_digest(data, chosen.digest, name.full)
        if digest in known:
            return digest
        manifest = decoded(data, Manifest, name.full)
        config = await self._blob(manifest.config, directory)
        if config.stat().st_size > MOST_MANIFEST_BYTES:
            raise ImageError(f"{name.full}: the configuration has more than {MOST_MANIFEST_BYTES} bytes")
        files = [(layer, await self._blob(layer, directory)) for layer in manifest.layers]
        layers = tuple(Layer("", layer.size, _opener(file)) for layer, file in files)
        return FoundImage(digest, config.read_bytes(), layers)

    async def _manifest(self, reference: str) -> tuple[bytes, str]:
        async with self._get(f"manifests/{reference}") as answer:
            data = await answer.content.read(MOST_MANIFEST_BYTES + 1)
            while not answer.content.at_eof() and len(data) <= MOST_MANIFEST_BYTES:
                data += await answer.content.read(MOST_MANIFEST_BYTES + 1 - len(data))
            if len(data) > MOST_MANIFEST_BYTES:
                raise ImageError(f"{self._name.full}: the manifest has more than {MOST_MANIFEST_BYTES} bytes")
            return data, answer.content_type

    async def _blob(self, descriptor: Descriptor, directory: Path) -> Path:
        """Download a blob and check its digest. Returns the file.

        Raises ImageError if the blob is too large or has another digest. The file in `directory` is named by the
        digest.
        """
        check, size = hasher(descriptor.digest), 0
        limit = descriptor.size if descriptor.size >= 0 else _MOST_BLOB_BYTES
        file = directory / descriptor.digest.replace(":", "-")
        async with self._get(f"blobs/{descriptor.digest}") as answer:
            with file.open("wb") as stream:
                async for chunk in answer.content.iter_chunked(1 << 20):
                    size += len(chunk)
                    if size > limit:
                        raise ImageError(f"{self._name.full}: blob {descriptor.digest} is larger than {limit} bytes")
                    check.update(chunk)
                    stream.write(chunk)
        found = f"{descriptor.digest.partition(':')[0]}:{check.hexdigest()}"
        if found != descriptor.digest:
            raise ImageError(f"{self._name.full}: the digest of a blob is {found}, expected {descriptor.digest}")
        return file

    @asynccontextmanager
    async def _get(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        for attempt in range(2):
            headers = {"Accept": _ACCEPT if path.startswith("manifests") else "*/*"}
            if self._authorization:
                headers["Authorization"] = self._authorization
            async with self._session.get(f"{self.url}/{path}", headers=headers) as answer:
                if answer.status == 401 and attempt == 0:
                    await self._authorize(answer.headers.get("WWW-Authenticate", ""))
                    continue
                self._check(answer.status)
                yield answer
                return

    def _check(self, status: int) -> None:
        if status in (401, 403):
            text = "pull access denied, repository does not exist or may require authorization"
            raise _Denied(f"{self._name.full}: {text}")
        if status == 404:
            raise ImageError(f'failed to resolve reference "{self._name.full}": {self._name.full}: not found')
        if status != 200:
            raise ImageError(f"{self._name.full}: the registry answered with status {status}")

    async def _authorize(self, challenge: str) -> None:
        """Answer the registry's challenge: use the password, or fetch a token from the URL that the challenge names."""
        kind, _, rest = challenge.partition(" ")
        basic = _basic(self._credential)
        if kind.lower() == "basic" and basic:
            self._authorization = basic
        elif kind.lower() == "bearer":
            values = dict(_CHALLENGE.findall(rest))
            query = {k: v for k, v in values.items() if k in ("service", "scope")}
            headers = {"Authorization": basic} if basic else {}
            async with self._session.get(values.get("realm", ""), params=query, headers=headers) as answer:
                self._check(answer.status)
                told: Any = await answer.json(content_type=None)
            token = told.get("token") or told.get("access_token") if isinstance(told, dict) else None
            self._authorization = f"Bearer {token}" if token else ""


def _opener(file: Path) -> Callable[[], AbstractContextManager[IO[bytes]]]:
    return lambda: file.open("rb")


def _basic(credential: Credential) -> str:
    if not credential.user:
        return ""
    return "Basic " + base64.b64encode(f"{credential.user}:{credential.password}".encode()).decode()
