"""Credentials other than client certificates: a fixed token, a token file or a credential plugin.

Tokens are not stored. Exec plugins and auth providers are run by the `kubernetes` package, which is imported only
when needed: it takes half a second and 47 MB.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dray.api.errors import Unauthorized
from dray.client.clock import Clock, SystemClock
from dray.files import read_text

# Mounted service account tokens are replaced well before they expire; client-go reads them every minute too.
_REREAD_SECONDS = 60.0


class Credentials(Protocol):
    """Source of the Authorization header."""

    async def header(self) -> str:
        """Return the value of the header; empty for none."""
        ...

    async def renew(self) -> bool:
        """Get a new header after the server has rejected the current one.

        Returns whether the header changed, so that the request is worth repeating.
        """
        ...


class Fixed:
    """A fixed header; none by default."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    @classmethod
    def token(cls, token: str) -> Fixed:
        """Return credentials with a bearer token."""
        return cls(f"Bearer {token}")

    @classmethod
    def basic(cls, username: str, password: str) -> Fixed:
        """Return credentials for HTTP basic authentication."""
        return cls("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())

    async def header(self) -> str:
        return self._header

    async def renew(self) -> bool:
        return False


class TokenFile:
    """A token in a file that another program keeps up to date."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._token = ""
        self._read_at = 0.0

    async def header(self) -> str:
        if not self._token or self._clock.monotonic() - self._read_at > _REREAD_SECONDS:
            self._read()
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        before = self._token
        self._read()
        return self._token != before

    def _read(self) -> None:
        try:
            self._token = read_text(self._path).strip()
        except OSError as error:
            raise Unauthorized(f"cannot read the token file {self._path}: {error.strerror}") from error
        self._read_at = self._clock.monotonic()


class TokenPlugin:
    """A token from an exec plugin or auth provider, run on first use and after the token was rejected."""

    def __init__(self, make_loader: Callable[[], Any]) -> None:
        self._make_loader = make_loader
        self._header = ""

    async def header(self) -> str:
        if not self._header:
            self._header = await self._ask()
        return self._header

    async def renew(self) -> bool:
        before = self._header
        self._header = await self._ask()
        return self._header != before

    async def _ask(self) -> str:
        from kubernetes.aio.client import Configuration

        configuration = Configuration()
        try:
            await self._make_loader().load_and_set(configuration)
        except Exception as error:  # the library can raise any exception for a plugin's output
            raise Unauthorized(f"the credential plugin failed: {error}") from error
        token = configuration.api_key.get("BearerToken", "")
        if not token:
            raise Unauthorized("the credential plugin gave no token (its output is in the log)")
        return str(token)
