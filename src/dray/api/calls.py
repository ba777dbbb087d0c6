"""What a part of this process asks of an API server: one struct for each verb.

Clients make these. A server in the same process reads them, and the HTTP client makes requests of them; neither package
imports the other. A call with its caller says everything that the answer depends on. Left out: dry runs, field validation
and tables, which only other clients ask for.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, TypeAlias

from msgspec import Struct

from dray.api.resources import Resource
from dray.api.users import User
from dray.api.wire import Tree, Wire

Patch = Tree | list[Tree]


class PatchKind(Enum):
    """How a patch is meant; the value is its media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Caller(Struct, frozen=True):
    """Who calls, and the name of the program, which manages the fields that it writes."""

    user: User
    agent: str = ""


class ApiCall(Struct, frozen=True):
    """The part that all calls have. `namespace` is empty for all namespaces and for resources without them."""

    verb: ClassVar[str]

    resource: Resource
    namespace: str = ""


class ObjectCall(ApiCall, frozen=True):
    """A call about one object."""

    name: str = ""


class PartCall(ObjectCall, frozen=True):
    """A call about one object, or a subresource of it."""

    subresource: str = ""


class GetCall(ObjectCall, frozen=True):
    """Read an object."""

    verb = "get"


class ListCall(ApiCall, frozen=True, kw_only=True):
    """Read a page of objects; without `limit`, all that the selectors match."""

    verb = "list"

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""


class WatchCall(ApiCall, frozen=True, kw_only=True):
    """Follow the changes after `resource_version`, for `timeout` seconds."""

    verb = "watch"

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = True
    timeout: float | None = None


class CreateCall(PartCall, frozen=True, kw_only=True):
    """Create an object, or post to the subresource of the object `name`. The caller may keep `body`."""

    verb = "create"

    body: Tree | Wire


class UpdateCall(PartCall, frozen=True, kw_only=True):
    """Replace an object or a part of it. The caller may keep `tree`."""

    verb = "update"

    tree: Tree


class PatchCall(PartCall, frozen=True, kw_only=True):
    """Change an object or a part of it. An empty `manager` means the program."""

    verb = "patch"

    patch: Patch
    kind: PatchKind = PatchKind.MERGE
    manager: str = ""
    force: bool = False


class StatusCall(ObjectCall, frozen=True, kw_only=True):
    """Write the status of an object that was read: `wanted` is the same object with the status that it is to have."""

    verb = "patch"

    read: Wire
    wanted: Wire


class DeleteCall(ObjectCall, frozen=True, kw_only=True):
    """Delete an object; an empty `uid` or `resource_version` is no precondition."""

    verb = "delete"

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = ""


class DeleteCollectionCall(ApiCall, frozen=True, kw_only=True):
    """Delete all objects that the selectors match."""

    verb = "deletecollection"

    labels: str = ""
    fields: str = ""
    grace: int | None = None
    propagation: str = ""


AnsweredByObject: TypeAlias = GetCall | CreateCall | UpdateCall | PatchCall | StatusCall
Deletion: TypeAlias = DeleteCall | DeleteCollectionCall
AnsweredCall: TypeAlias = AnsweredByObject | ListCall | Deletion
"""All calls but `WatchCall`, which has many answers."""
