"""Opens a log from the value of the option `--store`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from dray.store.errors import StoreError
from dray.store.log import Log
from dray.store.memory import MemoryLog
from dray.store.sqlite import SqliteLog

if TYPE_CHECKING:
    from dray.store.etcd_client import EtcdTls, EtcdUser

_EXPECTED = (
    "expected memory, sqlite:PATH or "
    "etcd://HOST:PORT,…[?prefix=…&ca=FILE&cert=FILE&key=FILE&user=NAME&password-file=FILE]"
)
_PARAMETERS = {"prefix", "ca", "cert", "key", "user", "password-file"}


async def open_log(url: str) -> Log:
    """Open the log `memory`, `sqlite:PATH` (or just a path with a slash or ending in .db) or `etcd://HOST:PORT,…`.

    Raises StoreError for an invalid value, and if the log cannot be opened.
    """
    if url == "memory":
        return MemoryLog()
    if url.startswith("etcd://"):
        return await _open_etcd(url)
    path = url.removeprefix("sqlite:").removeprefix("//")
    if path and (url.startswith("sqlite:") or (os.sep in url and "://" not in url) or url.endswith(".db")):
        return await SqliteLog.open(path)
    raise StoreError(f"store {url!r}: {_EXPECTED}")


async def _open_etcd(url: str) -> Log:
    from dray.store.etcd import EtcdLog  # here, since importing gRPC is slow and most clusters need none

    parts = urlsplit(url)
    endpoints = [endpoint for endpoint in parts.netloc.split(",") if endpoint]
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not endpoints or any(not _is_endpoint(endpoint) for endpoint in endpoints):
        raise StoreError(f"store {url!r}: {_EXPECTED}")
    if unknown := options.keys() - _PARAMETERS:
        raise StoreError(f"store {url!r}: unknown parameter {sorted(unknown)[0]}; {_EXPECTED}")
    prefix = options.get("prefix", "/dray/")
    if not prefix.endswith("/"):
        raise StoreError(f"store {url!r}: prefix must end with a slash")
    return await EtcdLog.open(endpoints, prefix=prefix, tls=_tls(url, options), user=_user(url, options))


def _is_endpoint(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 65536


def _tls(url: str, options: dict[str, str]) -> "EtcdTls | None":
    from dray.store.etcd_client import EtcdTls  # as above

    cert, key = (Path(options[name]) if name in options else None for name in ("cert", "key"))
    if "ca" in options:
        return EtcdTls(Path(options["ca"]), cert, key)
    if cert or key:
        raise StoreError(
            f"store {url!r}: cert and key need ca, the file of the authority that signed etcd's certificate"
        )
    return None


def _user(url: str, options: dict[str, str]) -> "EtcdUser | None":
    from dray.store.etcd_client import EtcdUser  # as above

    name, password_file = options.get("user"), options.get("password-file")
    if not name and not password_file:
        return None
    if not name or not password_file:
        raise StoreError(f"store {url!r}: user and password-file belong together")
    user = EtcdUser(name, Path(password_file))
    user.password()  # report an unreadable file immediately
    return user
