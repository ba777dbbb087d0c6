"""Renew a server's certificate while the server runs, and load certificate files that were replaced.

The authority is never renewed: it lasts as long as its directory. Client certificates are not renewed either.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.apiserver.security.certificates import Keys
    from dray.apiserver.wire.serving import HttpServer

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 600.0


async def keep_certificate(keys: Keys, server: HttpServer, pause: float = _LOOK_SECONDS) -> None:
    """Renew the certificate when it expires soon, and load replaced files, periodically.

    New connections use the new one.
    """
    served = _stamp(keys)
    while True:
        await asyncio.sleep(pause)
        try:
            keys.renew()
            if (found := _stamp(keys)) == served:
                continue
            server.reload_certificate()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            logger.error("%s cannot be served, the certificate before it is kept: %s", keys.certificate_file, error)
        else:
            served = found
            logger.info("%s is served from now on", keys.certificate_file)


def _stamp(keys: Keys) -> tuple[tuple[int, int], ...]:
    """Return a value that changes when a file is replaced."""
    found = [file.stat() for file in (keys.certificate_file, keys.key_file)]
    return tuple((file.st_ino, file.st_mtime_ns) for file in found)
