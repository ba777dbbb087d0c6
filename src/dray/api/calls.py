"""Requests to an API server: one struct per verb.

Clients create these structs. A server in the same process executes them directly, and the HTTP client converts
them to HTTP requests; neither package imports the other. A call and its caller contain everything that the
response depends on. Dry runs, field validation and tables are not supported; only other clients request them.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, TypeAlias

from msgspec import Struct

from dray.api.resources import Resource
from dray.api.users import User
from dray.api.wire import Tree, Wire

PatchBody = Tree | list[Tree]


class PatchKind(Enum):
    """Type of a patch; the value is the media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Caller(Struct, frozen=True):
    """User of a call and name of the program, which becomes the field manager."""

    user: User
    agent: str = ""


class ApiCall(Struct, frozen=True):
    """Base class of all calls. `namespace` is empty for all namespaces and for cluster-scoped resources."""

    verb: ClassVar[str]

    resource: Resource
    namespace: str = ""


class ObjectCall(ApiCall, frozen=True):
    """Base class of calls about one object."""

    name: str = ""


class PartCall(ObjectCall, frozen=True):
    """Base class of calls about one object or a subresource of it."""

    subresource: str = ""


class GetCall(ObjectCall, frozen=True):
    """Read an object."""

    verb = "get"


class ListCall(ApiCall, frozen=True, kw_only=True):
    """Read a page of objects; without `limit`, all objects that match the selectors."""

    verb = "list"

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""


class WatchCall(ApiCall, frozen=True, kw_only=True):
    """Watch the changes after `resource_version` for `timeout` seconds."""

    verb = "watch"

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = True
    timeout: float | None = None


class CreateCall(PartCall, frozen=True, kw_only=True):
    """Create an object, or post to a subresource of the object `name`. The server does not modify `body`."""

    verb = "create"

    body: Tree | Wire


class UpdateCall(PartCall, frozen=True, kw_only=True):
    """Replace an object or a subresource of it. The server does not modify `tree`."""

    verb = "update"

    tree: Tree


class PatchCall(PartCall, frozen=True, kw_only=True):
    """Patch an object or a subresource of it. If `manager` is empty, the field manager is the program."""

    verb = "patch"

    patch: PatchBody
    kind: PatchKind = PatchKind.MERGE
    manager: str = ""
    force: bool = False


class StatusCall(ObjectCall, frozen=True, kw_only=True):
    """Write the status of an object: `wanted` is the object as it was read, with the new status."""

    verb = "patch"

    read: Wire
    wanted: Wire


class DeleteCall(ObjectCall, frozen=True, kw_only=True):
    """Delete an object. An empty `uid` or `resource_version` is no precondition.

    `grace` is the grace period in seconds, or None for the default; an empty `propagation` is the default policy.
    """

    verb = "delete"

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = ""


class DeleteCollectionCall(ApiCall, frozen=True, kw_only=True):
    """Delete all objects that match the selectors.

    `grace` is the grace period in seconds, or None for the default; an empty `propagation` is the default policy.
    """

    verb = "deletecollection"

    labels: str = ""
    fields: str = ""
    grace: int | None = None
    propagation: str = ""


AnsweredByObject: TypeAlias = GetCall | CreateCall | UpdateCall | PatchCall | StatusCall
AnyDeleteCall: TypeAlias = DeleteCall | DeleteCollectionCall
AnsweredCall: TypeAlias = AnsweredByObject | ListCall | AnyDeleteCall
"""All calls except `WatchCall`, whose response is a stream of events."""
