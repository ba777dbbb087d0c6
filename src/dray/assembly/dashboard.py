"""The dashboard in `dray up`: mounted at `/dashboard/`, for the users of the server."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from dray import __version__
from dray.assembly.options import ServerOptions, ServerStartError
from dray.files import read_regular

if TYPE_CHECKING:
    from dray.api.users import User
    from dray.api.wire import Tree
    from dray.apiserver.assembly import Running
    from dray.apiserver.wire.http import Receive, Scope, Send
    from dray.web.application import Dashboard

PREFIX = "/dashboard"
_KEY = "dashboard.key"


class DashboardKeyError(ServerStartError):
    """The key for cookies is unusable. The text says how to repair it."""


class Mounted:
    """The dashboard of a server, created on the first request, because its imports take a while."""

    def __init__(self, running: Running, options: ServerOptions) -> None:
        from dray.web.sessions import Sessions

        self._running, self._options = running, options
        self._sessions = Sessions(_key(options.dir))
        self._making = asyncio.Lock()
        self._dashboard: Dashboard | None = None
        self._asked = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._making:
            if self._dashboard is None:
                self._dashboard = await asyncio.to_thread(self._make)
                self._asked.set()
        await self._dashboard(scope, receive, send)

    async def run(self) -> None:
        """Run the dashboard, once it has been created, until cancelled."""
        await self._asked.wait()
        assert self._dashboard is not None
        await self._dashboard.run()

    def address(self, url: str) -> str:
        """Return a one-time URL that signs in the administrator."""
        from dray.api.users import ADMIN

        return f"{url}{PREFIX}/#code={self._sessions.mint(credential_of(ADMIN))}"

    def _make(self) -> Dashboard:
        from dray.assembly.access import ServerAccess
        from dray.web.application import Dashboard
        from dray.web.wire import Names

        running, options = self._running, self._options
        return Dashboard(
            ServerAccess(running, f"{'http' if options.insecure else 'https'}://{running.address}"),
            Names(options.host, socket.gethostname(), loopback_only=options.insecure),
            gates=running.gates,
            background=running.background,
            sessions=self._sessions,
            version=__version__,
        )


def mount(running: Running, options: ServerOptions) -> Mounted:
    """Mount the dashboard on the server's socket. Returns the dashboard, which the caller must run."""
    mounted = Mounted(running, options)
    running.http.mounts[PREFIX] = mounted
    return mounted


def address(running: Running, url: str) -> str:
    """Return a one-time URL that signs in the administrator, or "" if no dashboard is mounted."""
    mounted = running.http.mounts.get(PREFIX)
    return mounted.address(url) if isinstance(mounted, Mounted) else ""


def credential_of(user: User, namespace: str = "default") -> Tree:
    """Return the credential that a cookie stores for an authenticated user."""
    return {"user": {"name": user.name, "uid": user.uid, "groups": list(user.groups)}, "namespace": namespace}


def _key(directory: Path) -> bytes:
    """Return the key for cookies, created once, so that sessions survive a restart.

    Raises DashboardKeyError if the file cannot be read or written, or its content is no key.
    """
    from dray.apiserver.security.certificates import write_private
    from dray.web.sessions import check_key, new_key

    file = directory / _KEY
    try:
        if not file.exists():
            write_private(file, new_key())
        key = read_regular(file)
        os.chmod(file, 0o600)
        check_key(key)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DashboardKeyError(
            f"{file} cannot be used: {why}; restore it, or delete it and a new one is made: users then sign in again"
        ) from error
    return key
