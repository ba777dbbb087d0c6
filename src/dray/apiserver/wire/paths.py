"""Parse method and path to verb, resource, version, namespace, name and subresource.

Only paths of resources; `http` handles discovery, OpenAPI, health and metrics before. The caller's table decides
which versions are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from dray.api.errors import BadRequest, MethodNotAllowed, NotFound
from dray.api.resources import Resource

CONNECTED = ("attach", "exec", "portforward", "proxy")
_ONE = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MANY = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_POSTED = ("binding", "eviction", "token")  # subresources that are created, never read


class UnknownResource(NotFound):
    """Group, version or resource does not exist, in Kubernetes' wording and form."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource")

    def status(self) -> dict[str, Any]:
        return {**super().status(), "details": {}}


class UnknownGroup(NotFound):
    """No such path. The only error that is sent as plain text instead of a Status."""

    def __init__(self) -> None:
        super().__init__("404 page not found")


class WrongMethod(MethodNotAllowed):
    """The resource does not support the HTTP method."""

    def __init__(self) -> None:
        super().__init__("the server does not allow this method on the requested resource")

    def status(self) -> dict[str, Any]:
        return {**super().status(), "details": {}}


class RequestTarget(msgspec.Struct, frozen=True):
    """Verb, resource, version, namespace, name and subresource of a path.

    `tail` is the rest after a subresource such as proxy.
    """

    verb: str
    resource: Resource
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    tail: str = ""


class CustomRoutes(Protocol):
    """Custom resources of a server, which can change at any time."""

    @property
    def groups(self) -> set[str]: ...

    def plurals(self, group: str, version: str) -> Mapping[str, Resource] | None: ...


class Routes:
    """Served resources by group, version and plural name."""

    def __init__(self, served: Iterable[tuple[Resource, str]], custom: CustomRoutes | None = None) -> None:
        self._custom = custom
        self._table: dict[tuple[str, str], dict[str, Resource]] = {}
        for resource, version in served:
            self._table.setdefault((resource.group, version), {})[resource.plural] = resource
        self.groups = {group for group, _ in self._table}

    def match(self, method: str, path: str) -> RequestTarget:
        """Return the target of an HTTP method and path.

        Raises UnknownGroup or UnknownResource if nothing is served at the path, WrongMethod if the method is not
        supported there, BadRequest if the namespace is empty.
        """
        parts = path.split("/")
        if len(parts) > 2 and parts[1] == "api":
            group, version, rest = "", parts[2], parts[3:]
        elif len(parts) > 3 and parts[1] == "apis":
            group, version, rest = parts[2], parts[3], parts[4:]
        else:
            raise UnknownGroup
        plurals = self._plurals(group, version)
        if rest and not rest[-1]:
            rest.pop()
        watching = bool(rest) and rest[0] == "watch"
        return _resolve(method, plurals, version, rest[1:] if watching else rest, watching)

    def _plurals(self, group: str, version: str) -> Mapping[str, Resource]:
        """Return the resources in a version of a group by plural name.

        Built-in resources take precedence over custom ones. Raises UnknownResource or UnknownGroup.
        """
        plurals = self._table.get((group, version))
        more = self._custom.plurals(group, version) if self._custom is not None else None
        if more is None and plurals is not None:  # almost always
            return plurals
        if more is None:
            is_known = group in self.groups or (self._custom is not None and group in self._custom.groups)
            raise UnknownResource if is_known else UnknownGroup
        return {**more, **(plurals or {})}


def _resolve(
    method: str, plurals: Mapping[str, Resource], version: str, parts: list[str], watching: bool
) -> RequestTarget:
    """Return the target of the path's parts after the version.

    `watching` says whether a GET is a watch. Raises UnknownResource if nothing is served at the path, BadRequest if
    its namespace is empty, WrongMethod for a POST of a namespaced object without a namespace.
    """
    namespace = ""
    # /namespaces/NAME/finalize and /status are subresources of the namespace, not resources in it.
    if len(parts) > 2 and parts[0] == "namespaces" and not (parts[2] in ("finalize", "status") and len(parts) == 3):
        namespace, parts = parts[1], parts[2:]
        if not namespace:
            raise BadRequest("the namespace in the path must not be empty")
    resource = plurals.get(parts[0]) if parts else None
    if resource is None or (namespace and not resource.namespaced):
        raise UnknownResource
    name = parts[1] if len(parts) > 1 else ""
    if len(parts) > 1 and not name:
        raise UnknownResource
    subresource = parts[2] if len(parts) > 2 else ""
    if (len(parts) > 2 and subresource not in _subresources(resource, version)) or (
        len(parts) > 3 and subresource != "proxy"
    ):
        raise UnknownResource
    if resource.namespaced and not namespace and (name or method == "POST"):
        raise WrongMethod if method == "POST" and not name else UnknownResource
    verb = "watch" if watching and method == "GET" else _verb(method, resource, name, subresource)
    return RequestTarget(verb, resource, version, namespace, name, subresource, "/".join(parts[3:]))


def _subresources(resource: Resource, version: str) -> tuple[str, ...]:
    """Return the subresources of a version; those of custom resources differ by version."""
    return resource.subresources if resource.custom is None else resource.custom.subresources(version)


def _verb(method: str, resource: Resource, name: str, subresource: str) -> str:
    """Return the verb for an HTTP method. `name` and `subresource` are empty if the path has none.

    Raises WrongMethod if the resource or subresource does not support the method.
    """
    if subresource in CONNECTED:
        return "create" if method == "POST" else "get"
    if subresource in _POSTED:
        if method != "POST":
            raise WrongMethod
        return "create"
    if subresource and (method == "DELETE" or (subresource == "log" and method != "GET")):
        raise WrongMethod
    if subresource == "finalize" and method != "PUT":
        raise WrongMethod
    verb = (_ONE if name else _MANY).get(method)
    if verb is None or verb not in resource.verbs:
        raise WrongMethod
    return verb
