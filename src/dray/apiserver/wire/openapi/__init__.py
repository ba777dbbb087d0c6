"""OpenAPI documents of the served resources: version 3 per group version, version 2 as a whole.

Made from the schema table and the resource table on first use, then cached as bytes. kubectl uses them to explain
kinds, to merge lists, and to decide whether the server validates fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any

import msgspec

import dray
from dray.api.resources import Resource
from dray.apiserver.wire.discovery import Discovery
from dray.apiserver.wire.openapi.custom import custom_definitions
from dray.apiserver.wire.openapi.document_protobuf import encode_document
from dray.apiserver.wire.openapi.paths import document_name, messages, paths
from dray.apiserver.wire.openapi.schemas import META, Dialect, definitions

_TITLE = "dray"


class OpenApi:
    """OpenAPI documents of a set of served resources."""

    def __init__(self, served: Mapping[Resource, Sequence[str]]) -> None:
        self._served = served
        self._discovery = Discovery(served)
        self._documents: dict[str, bytes] = {}

    @cached_property
    def index(self) -> bytes:
        """The document at /openapi/v3: the URL of each group version's document.

        A hash in the URL lets clients cache the document.
        """
        entries = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path)}"} for path in self._group_versions
        }
        return msgspec.json.encode({"paths": entries})

    def v3(self, path: str) -> bytes | None:
        """Return the document at /openapi/v3/PATH, such as `apis/resource.k8s.io/v1`, or None if it is not served."""
        if path not in self._group_versions:
            return None
        if path not in self._documents:
            self._documents[path] = msgspec.json.encode(self._v3_document(*self._group_versions[path]))
        return self._documents[path]

    @cached_property
    def v2(self) -> bytes:
        """The document at /openapi/v2 as JSON."""
        return msgspec.json.encode(self._v2_document())

    @cached_property
    def v2_protobuf(self) -> bytes:
        """The document at /openapi/v2 as protobuf, which kubectl before 1.27 requests."""
        return encode_document(self._v2_document())

    @cached_property
    def _group_versions(self) -> dict[str, tuple[str, str]]:
        """Group and version by the path of their document, such as `apis/resource.k8s.io/v1`."""
        return {
            f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
            for group, versions in self._discovery.groups.items()
            for version in versions
        }

    def _hash(self, path: str) -> str:
        """Return a hash that changes with dray's version, the schema and the served resources."""
        digest = hashlib.sha256(f"{dray.__version__} {path}".encode())
        digest.update(_sources())
        for resource, versions in self._served.items():
            digest.update(f"{resource.qualified} {','.join(versions)} ".encode())
            if resource.custom is not None:
                digest.update(resource.custom.definition.metadata.resourceVersion.encode())
        return digest.hexdigest().upper()

    def _v3_document(self, group: str, version: str) -> dict[str, Any]:
        """Return the OpenAPI 3 document of a group version."""
        found = self._discovery.resources(group, version)
        return {
            "openapi": "3.0.0",
            "info": {"title": _TITLE, "version": dray.__version__},
            "paths": dict(sorted(item for r in found for item in paths(r, version, Dialect.V3))),
            "components": {"schemas": _schemas([(r, version) for r in found], Dialect.V3)},
        }

    def _v2_document(self) -> dict[str, Any]:
        """Return the OpenAPI 2 document of all served resources."""
        found = [(r, version) for r, versions in self._served.items() for version in versions]
        return {
            "swagger": "2.0",
            "info": {"title": _TITLE, "version": dray.__version__},
            "paths": dict(sorted(item for r, version in found for item in paths(r, version, Dialect.V2))),
            "definitions": _schemas(found, Dialect.V2),
        }


def _schemas(found: list[tuple[Resource, str]], dialect: Dialect) -> dict[str, Any]:
    """Return the schemas of resources and of everything that they use, by name."""
    known = [(resource, version) for resource, version in found if resource.custom is None]
    made = [(resource, version) for resource, version in found if resource.custom is not None]
    own = {document_name(resource, version) for resource, version in made}
    used = [name for resource, version in found for name in messages(resource, version) if name not in own]
    used += [f"{META}ObjectMeta"] if made else []
    listed = [resource.message(version) for resource, version in known if "list" in resource.verbs]
    custom = {name: tree for resource, version in made for name, tree in custom_definitions(resource, version, dialect)}
    return dict(sorted((definitions(used, listed, dialect) | custom).items()))


@cache
def _sources() -> bytes:
    """Return a digest of the data from which the documents are made."""
    files = resources.files("dray.api")
    data = files.joinpath("schema.json").read_bytes() + files.joinpath("descriptions.json").read_bytes()
    return hashlib.sha256(data).digest()
