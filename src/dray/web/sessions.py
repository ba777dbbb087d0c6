"""Sessions without a list of sessions: one-time codes, and cookies that only the server can read or make.

A cookie holds the credential of its identity, encrypted and authenticated, so sessions outlive a restart of a server that
keeps its key. A code is good once and for a few minutes, and stands in a fragment, which browsers do not send. Left out:
who an identity is (`access`).
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
_CODES = 64  # codes that wait to be used; the oldest goes first
_REVOKED = 10_000

ReadTime = Callable[[], float]


class Sessions:
    """Codes and cookies of one server. `port` is part of the cookie's name, since cookies do not tell ports apart."""

    def __init__(self, key: bytes = b"", clock: ReadTime = time.time) -> None:
        self._seal = Fernet(key or Fernet.generate_key())
        self._clock = clock
        self._codes: dict[str, tuple[float, Tree]] = {}
        self._revoked: dict[bytes, float] = {}

    # Codes

    def mint(self, credential: Tree) -> str:
        """A new code for an identity."""
        while len(self._codes) >= _CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(24)
        self._codes[code] = self._clock() + CODE_SECONDS, credential
        return code

    def redeem(self, code: str) -> Tree:
        """The credential that a code stands for, once. Raises Unauthorized."""
        until, credential = self._codes.pop(code, (0.0, {}))
        if until < self._clock():
            raise Unauthorized("the code is not known, was used, or is too old: ask for a new one")
        return credential

    # Cookies

    def seal(self, credential: Tree) -> tuple[str, int]:
        """The content of a cookie, and when it ends."""
        now = int(self._clock())
        return self._seal.encrypt_at_time(msgspec.json.encode(credential), now).decode(), now + SESSION_SECONDS

    def open(self, cookie: str) -> tuple[Tree, int]:
        """The credential in a cookie, and when it ends. Raises Unauthorized."""
        token = cookie.encode()
        try:
            if token in self._revoked:
                raise InvalidToken
            content = self._seal.decrypt_at_time(token, SESSION_SECONDS, int(self._clock()))
            return msgspec.json.decode(content, type=dict), self._seal.extract_timestamp(token) + SESSION_SECONDS
        except (InvalidToken, msgspec.DecodeError) as error:
            raise Unauthorized("the session has ended") from error

    def revoke(self, cookie: str) -> None:
        """End a session before its time; forgotten with a restart, as the cookie is deleted in the browser, too.

        A cookie that stands for no session is not remembered: anybody can send those, as many as they like.
        """
        with suppress(Unauthorized):
            self.open(cookie)
            self._remember(cookie)

    def _remember(self, cookie: str) -> None:
        now = self._clock()
        self._revoked = {token: until for token, until in self._revoked.items() if until > now}
        if len(self._revoked) < _REVOKED:
            self._revoked[cookie.encode()] = now + SESSION_SECONDS


def new_key() -> bytes:
    """A key for cookies, to be kept where sessions should outlive the server."""
    return Fernet.generate_key()


def check_key(key: bytes) -> None:
    """Raises ValueError if this is no key for cookies."""
    Fernet(key)
