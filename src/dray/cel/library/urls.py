"""URL functions: parse absolute URLs and absolute paths as Go's net/url does."""

from __future__ import annotations

import re
from urllib.parse import quote as escape
from urllib.parse import unquote

from dray.api.quoting import quote
from dray.cel import types
from dray.cel.declarations import function, method, overload, succeeds
from dray.cel.errors import EvaluationError
from dray.cel.prices import URL_PARSING
from dray.cel.types import list_of, map_of
from dray.cel.values import Url, Value

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?\Z")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
_HOST_REFUSED = re.compile(r"[\x00-\x20\"#%/<>?@\\^`{|}]")
_PATH_SAFE = "-_.~$&+,/:;=@!'()*"


class UrlError(ValueError):
    """The text is not a valid URL."""


def parse_url(text: str) -> Url:
    """Parse an absolute URL or an absolute path. Raises UrlError with the message of Go's net/url.

    A fragment is cut off.
    """
    try:
        _require_request(text)
        return _parse(text.partition("#")[0])
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from error


def _require_request(text: str) -> None:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text:
        raise UrlError("empty url")
    rest = _split_scheme(text)[1]
    if not rest.startswith("/") and rest == text:
        raise UrlError("invalid URI for request")


def _split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    if found:
        return found[1].lower(), text[found.end() :]
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    return "", text


def _parse(text: str) -> Url:
    scheme, rest = _split_scheme(text)
    rest, _, query = rest.partition("?")
    if scheme and not rest.startswith("/"):
        return Url(scheme, "", "", query, text)  # opaque, like mailto:
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _parse_authority(authority), slash + path
    bad = _BAD_ESCAPE.search(rest)
    if bad:
        raise UrlError(f"invalid URL escape {quote(rest[bad.start() : bad.start() + 3])}")
    return Url(scheme, host, rest, query, text)


def _parse_authority(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not _USERINFO.match(userinfo):
        raise UrlError("net/url: invalid userinfo")
    if host.startswith("["):
        literal, bracket, port = host.rpartition("]")
        if not bracket:
            raise UrlError("missing ']' in host")
        host_port = port
        name = literal[1:]
    else:
        name, colon, port = host.partition(":")
        host_port = colon + port
    if not _PORT.match(host_port):
        raise UrlError(f"invalid port {quote(host_port)} after host")
    bad = _HOST_REFUSED.search(name.replace("%25", ""))
    if bad:
        raise UrlError(f"invalid character {quote(bad[0])} in host name")
    return host


def url(text: str) -> Value:
    """Evaluate `url(text)`: parse a URL. Raises EvaluationError if it is invalid."""
    try:
        return parse_url(text)
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from error


def _hostname(value: Url) -> Value:
    if value.host.startswith("["):
        return value.host[1:].partition("]")[0]
    return value.host.partition(":")[0]


def _port(value: Url) -> Value:
    return value.host.rpartition("]")[2].partition(":")[2]


def _escaped_path(value: Url) -> Value:
    valid = value.path == escape(unquote(value.path), safe=_PATH_SAFE + "%[]") or "%" in value.path
    return value.path if valid and " " not in value.path else escape(unquote(value.path), safe=_PATH_SAFE)


def _query(value: Url) -> Value:
    result: dict[Value, Value] = {}
    for part in value.query.split("&"):
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        key, _, item = part.partition("=")
        values = result.setdefault(unquote(key.replace("+", " ")), [])
        assert isinstance(values, list)
        values.append(unquote(item.replace("+", " ")))
    return result


_S, _URL = types.STRING, types.URL

FUNCTIONS = (
    function("url", overload("string_to_url", (_S,), _URL, url), price=URL_PARSING),
    function("getScheme", method("url_get_scheme", (_URL,), _S, lambda value: value.scheme)),
    function("getHost", method("url_get_host", (_URL,), _S, lambda value: value.host)),
    function("getHostname", method("url_get_hostname", (_URL,), _S, _hostname)),
    function("getPort", method("url_get_port", (_URL,), _S, _port)),
    function("getEscapedPath", method("url_get_escaped_path", (_URL,), _S, _escaped_path)),
    function("getQuery", method("url_get_query", (_URL,), map_of(_S, list_of(_S)), _query)),
    function("isURL", overload("is_url_string", (_S,), types.BOOL, succeeds(url))),
)
