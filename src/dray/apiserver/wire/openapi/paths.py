"""Paths and operations: what can be done with each resource, and with which parameters.

Clients read the parameters of PATCH to learn whether a server validates fields and supports dry runs; generators
create clients from the documents. Subresources that open streams are omitted, because OpenAPI cannot describe them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from dray.api import protobuf
from dray.api.resources import Resource
from dray.apiserver.wire.bodies import JSON, PROTOBUF, YAML
from dray.apiserver.wire.discovery import subresource
from dray.apiserver.wire.openapi.schemas import GVK, META, PATCH, Dialect, reference

Json: TypeAlias = dict[str, Any]

STREAMS = ("attach", "exec", "portforward", "proxy")
STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC,
    "application/apply-patch+yaml",
)
PRODUCES = (JSON, YAML)

_WRITE = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_LIST = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_DELETE = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}


class Action(msgspec.Struct, frozen=True):
    """One type of operation: HTTP method, names in documents, query parameters and kind of body."""

    name: str  # x-kubernetes-action
    method: str
    verb: str  # verb in operation identifiers
    query: dict[str, str]
    body: str = ""  # "", "object", "patch" or "options"


ACTIONS = {
    "list": Action("list", "get", "list", _LIST),
    "create": Action("post", "post", "create", _WRITE, "object"),
    "deletecollection": Action("deletecollection", "delete", "delete", {**_LIST, **_DELETE}, "options"),
    "get": Action("get", "get", "read", {}),
    "update": Action("put", "put", "replace", _WRITE, "object"),
    "patch": Action("patch", "patch", "patch", {**_WRITE, "force": "boolean"}, "patch"),
    "delete": Action("delete", "delete", "delete", _DELETE, "options"),
}
_COLLECTION = ("list", "create", "deletecollection")
_ITEM = ("get", "update", "patch", "delete")


class DocumentedPath(msgspec.Struct, frozen=True):
    """Resource, version, schema, kind and operation name of one path in the documents."""

    resource: Resource
    version: str
    message: str  # schema of requests and responses
    kind: tuple[str, str, str]  # group, version, kind
    name: str  # name in operation identifiers: NamespacedPodStatus

    @property
    def tag(self) -> str:
        """Tag of operations: rbacAuthorization_v1, core_v1."""
        return f"{self.resource.group.removesuffix('.k8s.io').replace('.', '_') or 'core'}_{self.version}"

    @property
    def prefix(self) -> str:
        """Prefix in operation identifiers: RbacAuthorizationV1."""
        return "".join(part[0].upper() + part[1:] for part in self.tag.split("_"))


def messages(resource: Resource, version: str) -> Iterator[str]:
    """Yield the schema names of a resource's requests and responses, except lists and patches."""
    target = _target(resource, version)
    yield target.message
    yield f"{META}DeleteOptions"
    yield f"{META}Status"
    for name in _below(resource, version):
        yield _subresource(target, name)[0].message


def _below(resource: Resource, version: str) -> list[str]:
    """Return the subresources of a version that documents can describe."""
    names = resource.subresources if resource.custom is None else resource.custom.subresources(version)
    return [name for name in names if name not in STREAMS]


def _target(resource: Resource, version: str) -> DocumentedPath:
    """Return the path description of a resource's objects."""
    name = ("Namespaced" if resource.namespaced else "") + resource.kind
    return DocumentedPath(
        resource, version, document_name(resource, version), (resource.group, version, resource.kind), name
    )


def document_name(resource: Resource, version: str) -> str:
    """Return the schema name of a kind in the documents."""
    if resource.custom is None:
        return resource.message(version)
    return f"{'.'.join(reversed(resource.group.split('.')))}.{version}.{resource.kind}"


def paths(resource: Resource, version: str, dialect: Dialect) -> Iterator[tuple[str, Json]]:
    """Yield the paths of a resource in one version, each with its operations by HTTP method and its parameters."""
    root = f"/apis/{resource.group}/{version}" if resource.group else f"/api/{version}"
    scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    target = _target(resource, version)
    parameters: tuple[str, ...] = ("namespace",) if resource.namespaced else ()
    yield from _path(f"{scope}/{resource.plural}", target, _verbs(resource.verbs, _COLLECTION), parameters, dialect)
    if resource.namespaced and "list" in resource.verbs:
        everywhere = msgspec.structs.replace(target, name=f"{resource.kind}ForAllNamespaces")
        yield from _path(f"{root}/{resource.plural}", everywhere, ["list"], (), dialect)
    item = f"{scope}/{resource.plural}/{{name}}"
    parameters = ("name", *parameters)
    yield from _path(item, target, _verbs(resource.verbs, _ITEM), parameters, dialect)
    for name in _below(resource, version):
        sub, verbs = _subresource(target, name)
        yield from _path(f"{item}/{name}", sub, verbs, parameters, dialect)


def _verbs(served: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """Return those of the wanted verbs that are served, in the wanted order."""
    return [verb for verb in wanted if verb in served]


def _subresource(target: DocumentedPath, name: str) -> tuple[DocumentedPath, list[str]]:
    """Return the path description and verbs of a subresource."""
    known = subresource(target.resource, name)
    message, kind = target.message, target.kind
    if known.kind:
        group, version = (known.group, known.version) if known.version else target.kind[:2]
        package = group.partition(".")[0] or "core"
        message, kind = f"io.k8s.api.{package}.{version}.{known.kind}", (group, version, known.kind)
    sub = msgspec.structs.replace(target, message=message, kind=kind, name=target.name + name.capitalize())
    return sub, list(known.verbs)


def _path(
    path: str, target: DocumentedPath, verbs: list[str], parameters: tuple[str, ...], dialect: Dialect
) -> Iterator[tuple[str, Json]]:
    """Yield one path with its operations, or nothing if there are no verbs."""
    if not verbs:
        return
    item: Json = {ACTIONS[verb].method: _operation(ACTIONS[verb], target, dialect) for verb in verbs}
    item["parameters"] = [_parameter(name, "path", "string", dialect) for name in parameters]
    item["parameters"].append(_parameter("pretty", "query", "string", dialect))
    yield path, item


def _operation(action: Action, target: DocumentedPath, dialect: Dialect) -> Json:
    """Return the description of one operation in OpenAPI."""
    group, version, kind = target.kind
    collection = "Collection" if action.name == "deletecollection" else ""
    operation: Json = {
        "tags": [target.tag],
        "operationId": f"{action.verb}{target.prefix}{collection}{target.name}",
        "parameters": [_parameter(name, "query", type_, dialect) for name, type_ in action.query.items()],
        "x-kubernetes-action": action.name,
        GVK: {"group": group, "kind": kind, "version": version},
    }
    _add_body(operation, action, target, dialect)
    answer = reference(_answer(action, target), dialect)
    codes = {"200": "OK", "201": "Created"} if action.method in ("post", "put", "patch") else {"200": "OK"}
    has_protobuf = target.resource.custom is None and protobuf.has_form(f"{group}/{version}")
    media = (*PRODUCES, PROTOBUF) if has_protobuf else PRODUCES
    operation["responses"] = {code: _response(text, answer, media, dialect) for code, text in codes.items()}
    operation["responses"]["401"] = {"description": "Unauthorized"}
    if dialect is Dialect.V2:
        operation["produces"] = list(media)
        operation["schemes"] = ["https"]
    return operation


def _answer(action: Action, target: DocumentedPath) -> str:
    """Return the schema name of an operation's response: a list, a Status for deletions, or the object itself."""
    if action.name == "list":
        return f"{target.message}List"
    return f"{META}Status" if action.body == "options" else target.message


def _response(text: str, answer: Json, media: Sequence[str], dialect: Dialect) -> Json:
    if dialect is Dialect.V2:
        return {"description": text, "schema": answer}
    return {"description": text, "content": {kind: {"schema": answer} for kind in media}}


def _add_body(operation: Json, action: Action, target: DocumentedPath, dialect: Dialect) -> None:
    """Add the request body to the description of an operation."""
    if not action.body:
        return
    name = {"object": target.message, "patch": PATCH, "options": f"{META}DeleteOptions"}[action.body]
    media: Sequence[str] = ("*/*",)
    if action.body == "patch":
        media = [kind for kind in PATCH_TYPES if target.resource.custom is None or kind != STRATEGIC]
    required = action.body != "options"
    if dialect is Dialect.V3:
        content = {kind: {"schema": reference(name, dialect)} for kind in media}
        operation["requestBody"] = {"content": content, **({"required": True} if required else {})}
        return
    operation["consumes"] = list(media)
    body: Json = {"name": "body", "in": "body", "schema": reference(name, dialect)}
    operation["parameters"].insert(0, body | ({"required": True} if required else {}))


def _parameter(name: str, place: str, type_: str, dialect: Dialect) -> Json:
    required = {"required": True} if place == "path" else {}
    if dialect is Dialect.V3:
        return {"name": name, "in": place, **required, "schema": {"type": type_, "uniqueItems": True}}
    return {"name": name, "in": place, **required, "type": type_, "uniqueItems": True}
