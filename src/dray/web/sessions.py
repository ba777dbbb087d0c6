"""Sessions without server-side storage: one-time codes, and cookies that only the server can read or create.

A cookie has the encrypted and authenticated credential of its identity, so sessions survive a restart of a server
that keeps its key. A code is valid once and for a few minutes, and is passed in a URL fragment, which browsers do not
send. `access` determines identities.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from dray.api.errors import Unauthorized
from dray.api.wire import Tree

CODE_SECONDS = 300.0
SESSION_SECONDS = 12 * 3600
_CODES = 64  # unused codes; the oldest is dropped first
_REVOKED = 10_000

ReadTime = Callable[[], float]


class Sessions:
    """Codes and cookies of one server."""

    def __init__(self, key: bytes = b"", clock: ReadTime = time.time) -> None:
        self._seal = Fernet(key or Fernet.generate_key())
        self._clock = clock
        self._codes: dict[str, tuple[float, Tree]] = {}
        self._revoked: dict[bytes, float] = {}

    # Codes

    def mint(self, credential: Tree) -> str:
        """Return a new one-time code for a credential.

        The code is valid for CODE_SECONDS. The oldest codes are dropped if there are too many.
        """
        while len(self._codes) >= _CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(24)
        self._codes[code] = self._clock() + CODE_SECONDS, credential
        return code

    def redeem(self, code: str) -> Tree:
        """Return the credential of a code and invalidate the code.

        Raises Unauthorized if the code is unknown, was used or has expired.
        """
        until, credential = self._codes.pop(code, (0.0, {}))
        if until < self._clock():
            raise Unauthorized("the code is not known, was used, or is too old: ask for a new one")
        return credential

    # Cookies

    def seal(self, credential: Tree) -> tuple[str, int]:
        """Return the value of a cookie with this credential, and when it expires (Unix time in seconds)."""
        now = int(self._clock())
        return self._seal.encrypt_at_time(msgspec.json.encode(credential), now).decode(), now + SESSION_SECONDS

    def open(self, cookie: str) -> tuple[Tree, int]:
        """Return the credential in a cookie, and when it expires (Unix time in seconds).

        Raises Unauthorized if the cookie was revoked, has expired or is invalid.
        """
        token = cookie.encode()
        try:
            if token in self._revoked:
                raise InvalidToken
            content = self._seal.decrypt_at_time(token, SESSION_SECONDS, int(self._clock()))
            return msgspec.json.decode(content, type=dict), self._seal.extract_timestamp(token) + SESSION_SECONDS
        except (InvalidToken, msgspec.DecodeError) as error:
            raise Unauthorized("the session has ended") from error

    def revoke(self, cookie: str) -> None:
        """End a session early. Not kept across restarts, because the browser deletes the cookie too.

        Invalid cookies are not stored, because any client could send any number of them.
        """
        with suppress(Unauthorized):
            self.open(cookie)
            self._remember(cookie)

    def _remember(self, cookie: str) -> None:
        """Store a revoked cookie until it expires, up to a maximum number.

        If there are too many, the cookie is not stored.
        """
        now = self._clock()
        self._revoked = {token: until for token, until in self._revoked.items() if until > now}
        if len(self._revoked) < _REVOKED:
            self._revoked[cookie.encode()] = now + SESSION_SECONDS


def new_key() -> bytes:
    """Return a new key for cookies. Sessions survive a restart of the server if the key is kept."""
    return Fernet.generate_key()


def check_key(key: bytes) -> None:
    """Raise ValueError if a key for cookies is invalid."""
    Fernet(key)
