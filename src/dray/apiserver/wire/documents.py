"""Documents about the server itself: version, health, metrics, discovery, OpenAPI.

Health is public; the rest requires permission to read the path. Documents are made on the first request and cached
until the served resources change.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec

from dray import KUBERNETES_VERSION
from dray.api.resources import Resource
from dray.api.users import User
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.store_health import OK, StoreHealth
from dray.apiserver.wire.bodies import media_type
from dray.apiserver.wire.discovery import V2, V2BETA1, Discovery, etag
from dray.apiserver.wire.metrics import Metrics
from dray.apiserver.wire.paths import UnknownGroup, UnknownResource, WrongMethod
from dray.background.thread import in_thread

JSON = b"application/json"
# Clients request it with an @ before the version, which Go rejects in a response.
OPENAPI_V2_PROTOBUF = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
if TYPE_CHECKING:
    from dray.apiserver.wire.openapi import OpenApi

HEALTH = ("/healthz", "/livez", "/readyz")
_ROOT = ("/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")

VersionsByResource = Mapping[Resource, Sequence[str]]


class Document(msgspec.Struct, frozen=True):
    """A response: body, content type, code and headers."""

    body: bytes
    content_type: bytes = JSON
    code: int = 200
    headers: list[tuple[bytes, bytes]] = []


def document_parts(path: str) -> list[str] | None:
    """Return the parts of a document's path, or None for paths of resources."""
    if path.count("/") > 4 and not path.startswith("/openapi/"):  # most requests
        return None
    parts = path.rstrip("/").split("/")[1:]
    match parts:
        case [] | ["version" | "metrics" | "api" | "apis"] | ["openapi", "v2"] | ["openapi", "v3", *_]:
            return parts or [""]
        case ["api" | "apis", _] | ["apis", _, _]:
            return parts
    return None


class CustomServed(Protocol):
    """Custom resources of a server, which can change at any time."""

    def on_change(self, listener: Callable[[], None]) -> None: ...

    @property
    def served(self) -> VersionsByResource: ...


class DocumentsMade:
    """Documents made from the resources served at one time. Replaced as a whole when these change."""

    def __init__(self, served: VersionsByResource) -> None:
        self._served = served
        self.discovery = Discovery(served)
        self.aggregated: dict[tuple[bool, str], tuple[bytes, str]] = {}
        self.described: dict[str, Document] = {}

    @cached_property
    def openapi(self) -> OpenApi:
        from dray.apiserver.wire.openapi import OpenApi  # late: large, and only some tools need it

        return OpenApi(self._served)


class Documents:
    """Documents of one server at paths that are no resources: version, health, metrics, discovery, OpenAPI."""

    def __init__(
        self,
        served: VersionsByResource,
        custom: CustomServed,
        metrics: Metrics,
        health: StoreHealth,
        authorizer: Union | None,
        address: str = "",
    ) -> None:
        self.is_stopping = False
        self._built_in = served
        self._custom = custom
        self._metrics = metrics
        self._authorizer = authorizer
        self._address = address
        self._health = health
        self._made: DocumentsMade | None = None
        custom.on_change(self._forget)

    async def public(self, path: str, query: bytes) -> Document | None:
        """Return the health of the server or of one check, or None for paths other than the health paths.

        The code is 500 if a check fails. Raises UnknownGroup for an unknown check.
        """
        parts = path.split("/", 2)
        if f"/{parts[1]}" not in HEALTH:
            return None
        is_readiness = parts[1] == "readyz"
        results = {"ping": OK, "store": await self._health.state() if is_readiness else OK}
        if is_readiness:
            results["shutdown"] = "failed: the server is shutting down" if self.is_stopping else OK
        if len(parts) > 2 and parts[2]:
            if parts[2] not in results:
                raise UnknownGroup
            results = {parts[2]: results[parts[2]]}
        failed = any(result != "ok" for result in results.values())
        lines = [f"[{'+' if result == 'ok' else '-'}]{name} {result}\n" for name, result in results.items()]
        verdict = f"{parts[1]} check {'failed' if failed else 'passed'}\n"
        text = "".join([*lines, verdict]) if failed or b"verbose" in query else "ok"
        return Document(text.encode(), b"text/plain; charset=utf-8", 500 if failed else 200)

    async def private(self, user: User, method: str, parts: list[str], accept: str) -> Document:
        """Return the document at a path. `parts` are the parts of the path without slashes.

        Raises Forbidden unless the user may `get` the path, and WrongMethod unless the method is GET or HEAD.
        """
        if method not in ("GET", "HEAD"):
            raise WrongMethod
        if self._authorizer is not None:
            self._authorizer.check(user, Attributes("get", path="/" + "/".join(parts)))
        made = self._current()
        if parts[0] == "openapi":
            return await _openapi_document(made, parts, accept)
        return self._document(made, parts, accept)

    def _document(self, made: DocumentsMade, parts: list[str], accept: str) -> Document:
        """Return a document other than OpenAPI: version, metrics or discovery.

        Raises UnknownGroup or UnknownResource.
        """
        match parts:
            case ["version"]:
                return Document(msgspec.json.encode(_version()))
            case ["metrics"]:
                text, content_type = self._metrics.text()
                return Document(text, content_type)
            case ["api" | "apis"]:
                return self._discover(made, parts[0] == "api", accept)
            case ["api", version]:
                return _resources(made, "", version)
            case ["apis", group]:
                return _found(made.discovery.group(group))
            case ["apis", group, version]:
                return _resources(made, group, version)
        return Document(msgspec.json.encode({"paths": _ROOT}))

    # Served resources change with custom resources; then all documents are made again

    def _current(self) -> DocumentsMade:
        if self._made is None:
            self._made = DocumentsMade({**self._custom.served, **self._built_in})
        return self._made

    def _forget(self) -> None:
        """Drop all documents immediately, because they may hold large deleted definitions for a long time otherwise."""
        self._made = None

    def _discover(self, made: DocumentsMade, core: bool, accept: str) -> Document:
        """Return the document at /api or /apis, in the classic or aggregated form."""
        version = _aggregated_version(accept)
        if version is None:
            return Document(made.discovery.core_versions(self._address) if core else made.discovery.group_list)
        kept = made.aggregated.get((core, version))
        if kept is None:
            body = made.discovery.aggregated(core, version)
            kept = made.aggregated[core, version] = (body, etag(body))
        content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList".encode()
        return Document(kept[0], content_type, headers=[(b"etag", kept[1].encode()), (b"vary", b"Accept")])


# Discovery


def _resources(made: DocumentsMade, group: str, version: str) -> Document:
    """Return the list of resources in a version. Raises UnknownGroup or UnknownResource."""
    found = made.discovery.resource_list(group, version)
    if found is None and group in made.discovery.groups:
        raise UnknownResource
    return _found(found)


def _found(body: bytes | None) -> Document:
    """Return a document, or raise UnknownGroup if it does not exist."""
    if body is None:
        raise UnknownGroup
    return Document(body)


def _aggregated_version(accept: str) -> str | None:
    """Return the version of aggregated discovery that a client accepts, or None for the classic form."""
    for clause in accept.replace(" ", "").split(","):
        if "as=APIGroupDiscoveryList" in clause and "g=apidiscovery.k8s.io" in clause:
            if "v=v2beta1" in clause:
                return V2BETA1
            if "v=v2" in clause:
                return V2
    return None


# OpenAPI


async def _openapi_document(made: DocumentsMade, parts: list[str], accept: str) -> Document:
    """Return an OpenAPI document. Made in the worker thread, because that takes long with hundreds of definitions."""
    media = media_type(accept.split(",")[0])
    packed = parts[1] == "v2" and media.startswith("application/com.github.proto-openapi")
    kept, name = made.described, "v2.protobuf" if packed else "/".join(parts[1:])
    if name not in kept:
        kept[name] = await in_thread("", _openapi_made, made, name)
    return kept[name]


def _openapi_made(made: DocumentsMade, name: str) -> Document:
    """Return a new OpenAPI document. `name` is `v2`, `v2.protobuf`, `v3` or `v3/PATH`.

    Raises UnknownGroup if the group version is not served.
    """
    if name == "v2.protobuf":
        return Document(made.openapi.v2_protobuf, OPENAPI_V2_PROTOBUF)
    if name == "v2":
        return Document(made.openapi.v2)
    path = name.removeprefix("v3").removeprefix("/")
    return _found(made.openapi.v3(path) if path else made.openapi.index)


def _version() -> dict[str, str]:
    """Return the content of /version: the Kubernetes version, and Python's in place of Go's."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES_VERSION}+dray",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
