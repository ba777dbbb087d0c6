"""What the server says about itself: version, health, metrics, discovery, OpenAPI.

Health is told to everybody; the rest only to those who may read the path. Documents are made at the first request for
them and kept until what is served changes.
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
# Clients ask for it with an @ before the version, which Go refuses in an answer.
OPENAPI_V2_PROTOBUF = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
if TYPE_CHECKING:
    from dray.apiserver.wire.openapi import OpenApi

HEALTH = ("/healthz", "/livez", "/readyz")
_ROOT = ("/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")

VersionsByResource = Mapping[Resource, Sequence[str]]


class Document(msgspec.Struct, frozen=True):
    body: bytes
    content_type: bytes = JSON
    code: int = 200
    headers: list[tuple[bytes, bytes]] = []


def document_parts(path: str) -> list[str] | None:
    """The parts of the path of a document; nothing for paths of resources."""
    if path.count("/") > 4 and not path.startswith("/openapi/"):  # most are
        return None
    parts = path.rstrip("/").split("/")[1:]
    match parts:
        case [] | ["version" | "metrics" | "api" | "apis"] | ["openapi", "v2"] | ["openapi", "v3", *_]:
            return parts or [""]
        case ["api" | "apis", _] | ["apis", _, _]:
            return parts
    return None


class CustomServed(Protocol):
    """The custom resources of a server, which come and go."""

    def on_change(self, listener: Callable[[], None]) -> None: ...

    @property
    def served(self) -> VersionsByResource: ...


class DocumentsMade:
    """What was made of the resources that are served at one time; whoever works on a document holds on to it."""

    def __init__(self, served: VersionsByResource) -> None:
        self._served = served
        self.discovery = Discovery(served)
        self.aggregated: dict[tuple[bool, str], tuple[bytes, str]] = {}
        self.described: dict[str, Document] = {}

    @cached_property
    def openapi(self) -> OpenApi:
        from dray.apiserver.wire.openapi import OpenApi  # large, and only people's tools need it

        return OpenApi(self._served)


class Documents:
    """The documents of one server."""

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
        """The health of the server, or of one part of it; nothing for other paths."""
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
        """What only those may read who may read the path, whose parts these are."""
        if method not in ("GET", "HEAD"):
            raise WrongMethod
        if self._authorizer is not None:
            self._authorizer.check(user, Attributes("get", path="/" + "/".join(parts)))
        made = self._current()
        if parts[0] == "openapi":
            return await _openapi_document(made, parts, accept)
        return self._document(made, parts, accept)

    def _document(self, made: DocumentsMade, parts: list[str], accept: str) -> Document:
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

    # What is served changes with custom resources; then all documents are made again

    def _current(self) -> DocumentsMade:
        if self._made is None:
            self._made = DocumentsMade({**self._custom.served, **self._built_in})
        return self._made

    def _forget(self) -> None:
        """Let go of the documents at once: a definition that is gone may be large, and nobody may ask for a long time."""
        self._made = None

    def _discover(self, made: DocumentsMade, core: bool, accept: str) -> Document:
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
    found = made.discovery.resource_list(group, version)
    if found is None and group in made.discovery.groups:
        raise UnknownResource
    return _found(found)


def _found(body: bytes | None) -> Document:
    if body is None:
        raise UnknownGroup
    return Document(body)


def _aggregated_version(accept: str) -> str | None:
    """Which form of aggregated discovery a client prefers to the classic one."""
    for clause in accept.replace(" ", "").split(","):
        if "as=APIGroupDiscoveryList" in clause and "g=apidiscovery.k8s.io" in clause:
            if "v=v2beta1" in clause:
                return V2BETA1
            if "v=v2" in clause:
                return V2
    return None


# OpenAPI


async def _openapi_document(made: DocumentsMade, parts: list[str], accept: str) -> Document:
    """A document of OpenAPI; with hundreds of definitions it takes long to make, and others should not wait."""
    media = media_type(accept.split(",")[0])
    packed = parts[1] == "v2" and media.startswith("application/com.github.proto-openapi")
    kept, name = made.described, "v2.protobuf" if packed else "/".join(parts[1:])
    if name not in kept:
        kept[name] = await in_thread("", _openapi_made, made, name)
    return kept[name]


def _openapi_made(made: DocumentsMade, name: str) -> Document:
    if name == "v2.protobuf":
        return Document(made.openapi.v2_protobuf, OPENAPI_V2_PROTOBUF)
    if name == "v2":
        return Document(made.openapi.v2)
    path = name.removeprefix("v3").removeprefix("/")
    return _found(made.openapi.v3(path) if path else made.openapi.index)


def _version() -> dict[str, str]:
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
