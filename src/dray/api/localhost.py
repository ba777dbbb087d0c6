"""Check that protects servers without authentication from web pages.

Everyone who can reach such a server has full access, so it listens on the loopback address. But a browser on the
same machine can reach it too and runs scripts of arbitrary sites. Scripts cannot set the headers `Host`, `Origin`
and `Sec-Fetch-Site`; the browser sets them, and this check validates them.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.errors import Forbidden

_NAMES = ("localhost", "127.0.0.1", "::1")
_READ = ("host", "origin", "sec-fetch-site")
_OWN = ("", "none", "same-origin")


def check_local(headers: Iterable[tuple[str, str]]) -> None:
    """Raise Forbidden for a request with an unknown Host, or one that a page of another site may have sent.

    The names of the headers must be in lower case.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if name in _READ:
            if name in found:
                raise Forbidden(f"forbidden: the header {name} is given twice")
            found[name] = value
    host, origin, site = (found.get(name, "") for name in _READ)
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.strip("[]").lower() not in _NAMES:
        raise Forbidden(f"forbidden: an insecure server answers to localhost only, not to host {host!r}")
    if origin and origin.partition("://")[2] != host:
        raise Forbidden(f"forbidden: an insecure server does not answer pages of {origin!r}")
    if site.lower() not in _OWN:
        raise Forbidden("forbidden: an insecure server does not answer pages of other sites")
