"""The client interface: all operations on an API server, in-process or over HTTP.

`InProcess` and `Http` implement it and pass the same tests, so users of a client need not know where the server
is. The methods create calls (`dray.api.calls`), which contain all parameters; a client implements only the
execution of calls. Objects are read as typed objects, which are shared and must not be changed. Objects are
written as JSON trees, which belong to the server afterwards: create a new tree for each call. `informer` caches
objects; callers retry conflicts themselves, because they know what to read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.calls import (
    AnsweredByObject,
    AnyDeleteCall,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    GetCall,
    ListCall,
    PatchBody,
    PatchCall,
    PatchKind,
    StatusCall,
    UpdateCall,
    WatchCall,
)
from dray.api.custom import CustomObject
from dray.api.errors import BadRequest, NotFound
from dray.api.objects import Object as Object  # part of the interface
from dray.api.resources import BY_TYPE, Resource
from dray.api.wire import Tree

T = TypeVar("T", bound=Object)


class Page(NamedTuple, Generic[T]):
    """One page of a list. `continue_` is the token of the next page; empty on the last page."""

    items: tuple[T, ...]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. A BOOKMARK's `object` has only `metadata.resourceVersion`, a DELETED one's is the last state."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    object: T
    resource_version: str  # version from which to resume after this change


EventBatch = list[WatchEvent[T]]


class Client(ABC):
    """Access to an API server as one user.

    Every method raises subclasses of `dray.api.errors.ApiError`: an error response keeps its reason, a failed
    connection is `ServiceUnavailable`, and a response that is not JSON is `InternalError`.
    """

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        """Read one object. Raises `NotFound` if it does not exist, and `BadRequest` if the name is empty."""
        resource = resource_of(type_)
        return cast(T, await self._object(GetCall(resource, namespace, required_name(resource, name))))

    async def list(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """Read one page of objects; without namespace from all namespaces, without limit (0) all of them.

        `labels` and `fields` are selectors as text. `continue_` is the token of the previous page. Raises `Expired`
        if the token is too old.
        """
        call = ListCall(
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
        )
        return await self._page(call)

    async def create(
        self, type_: type[T], obj: Object | Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        """Create an object, or post to a subresource of the object `name`. Returns the created object.

        `namespace` can be omitted if the object contains it. A typed object must be complete and in canonical
        form. A subresource returns its own kind, contrary to the annotation: `token` an
        authentication.TokenRequest, `binding` and `eviction` a meta.Status.
        """
        resource = resource_of(type_)
        place = resource, _namespace(resource, obj, namespace), name if subresource else "", subresource
        body: Any = obj
        created: T = await self._object(CreateCall(*place, body=body))
        return created

    async def update(
        self, type_: type[T], tree: Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        """Replace an object. Returns the new object. A resourceVersion in the tree makes the update conditional.

        Name and namespace default to those in the tree. Raises `Conflict` if the object has another resourceVersion,
        `NotFound` if it does not exist, and `BadRequest` without a name or a required namespace.
        """
        resource = resource_of(type_)
        name = name or (tree.get("metadata") or {}).get("name") or ""
        place = resource, _namespace(resource, tree, namespace), required_name(resource, name), subresource
        return cast(T, await self._object(UpdateCall(*place, tree=tree)))

    async def patch(
        self,
        type_: type[T],
        name: str,
        patch: PatchBody,
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> T:
        """Patch an object. Returns the new object.

        `manager` is the field manager; `APPLY` requires it, and `force` takes over fields of other managers. Raises
        `BadRequest` if the name is empty.
        """
        resource = resource_of(type_)
        place = resource, namespace, required_name(resource, name), subresource
        return cast(T, await self._object(PatchCall(*place, patch=patch, kind=kind, manager=manager, force=force)))

    async def patch_status(self, obj: T, status: Any) -> T:
        """Write `status` as the status of an object that was read. Returns the object as written.

        `status` is a complete typed status, usually created from `obj.status` with `msgspec.structs.replace`.
        Only fields that differ are written, and nulls in opaque parameters are preserved. Raises `Conflict` if
        the object was changed since it was read, or replaced by another object of the same name;
        `dray.client.status.change_status` retries.
        """
        resource, meta = resource_of(type(obj)), obj.metadata
        read: Any = obj
        place = resource, meta.namespace, required_name(resource, meta.name)
        written: T = await self._object(StatusCall(*place, read=read, wanted=replace(read, status=status)))
        return written

    async def delete(
        self,
        type_: type[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete an object. `uid` and `resource_version` are preconditions; raises `Conflict` if they do not hold.

        `grace` is in seconds (None: the server's default), and `propagation` is Foreground, Background or Orphan.
        Raises `NotFound` if the object does not exist, and `BadRequest` if the name is empty.
        """
        resource = resource_of(type_)
        call = DeleteCall(
            resource,
            namespace,
            required_name(resource, name),
            uid=uid or "",
            resource_version=resource_version or "",
            grace=grace,
            propagation=propagation or "",
        )
        await self._delete(call)

    async def delete_collection(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete all objects that match the selectors, all objects without selectors.

        `grace` and `propagation` are as in `delete`.
        """
        call = DeleteCollectionCall(
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            grace=grace,
            propagation=propagation or "",
        )
        await self._delete(call)

    def watch(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        timeout: float | None = None,
    ) -> AsyncGenerator[EventBatch[T], None]:
        """Yield changes after `resource_version` in batches, until the server ends the watch or `timeout` seconds
        have passed.

        The watch also ends if the server sends nothing for a long time, not even a bookmark; resume from the last
        version. The iteration raises `Expired` if the version is too old. Use `contextlib.aclosing` to stop it. A
        batch is never empty and has the order of the server.
        """
        call = WatchCall(
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            bookmarks=bookmarks,
            timeout=timeout,
        )
        return self._changes(type_, call)

    @abstractmethod
    async def serves(self, type_: type[Object]) -> bool:
        """Return whether the server serves the resource. Raises if the server does not say.

        A list or watch that fails with `NotFound` is no evidence: proxies, and servers that are not ready,
        respond the same way.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections. The client cannot be used afterwards."""

    @abstractmethod
    async def _object(self, call: AnsweredByObject) -> Any:
        """Execute a call whose response is an object. Returns the object."""

    @abstractmethod
    async def _page(self, call: ListCall) -> Page[Any]:
        """Execute a list call. Returns a page; without limit, the whole list."""

    @abstractmethod
    async def _delete(self, call: AnyDeleteCall) -> None: ...

    @abstractmethod
    def _changes(self, type_: type[T], call: WatchCall) -> AsyncGenerator[EventBatch[T], None]:
        """Yield the changes of objects of a type in batches, which are never empty. Raises as `watch` does."""


def required_name(resource: Resource, name: str) -> str:
    """Return the name. Raises BadRequest if it is empty, because the call would address the whole collection."""
    if not name:
        raise BadRequest(f"a name is required to address one of the {resource.plural}")
    return name


def _namespace(resource: Resource, obj: Object | Tree, namespace: str) -> str:
    """Return the namespace of a write: the caller's or the object's; empty for cluster-scoped resources.

    Raises BadRequest if a required namespace is missing.
    """
    if not resource.namespaced:
        return ""
    if not namespace:
        named = (obj.get("metadata") or {}).get("namespace") if isinstance(obj, dict) else obj.metadata.namespace
        namespace = named or ""
    if not namespace:
        raise BadRequest(f"{resource.plural} are namespaced: a namespace is required to write one")
    return namespace


def resource_of(type_: type[Object]) -> Resource:
    """Return the resource of a type; types of custom resources carry their own.

    Raises NotFound if the definition of a custom resource was deleted, and KeyError for an unknown type.
    """
    try:
        return BY_TYPE[type_]  # type: ignore[index]  # types of custom resources are not in it
    except KeyError:
        found: Resource | None = getattr(type_, "RESOURCE", None)
        if found is None and issubclass(type_, CustomObject):
            raise NotFound(f"{type_.__name__} is not defined any more") from None
        if found is None:
            raise
        return found


def type_of(resource: Resource) -> type[Object]:
    """Return the type with which a resource is requested from a client."""
    return cast("type[Object]", resource.type if resource.custom is None else _custom_type(resource))


def _custom_type(resource: Resource) -> type[CustomObject]:
    """Return the type of a custom resource. Stored with the resource, so that it is freed with a deleted definition."""
    assert resource.custom is not None
    types = resource.custom.client_types
    if resource not in types:
        types[resource] = _made_type(resource)
    return types[resource]


def _made_type(resource: Resource) -> type[CustomObject]:
    """Create a type for a custom resource. It ignores unknown fields and gives access to metadata, spec and status."""
    made = msgspec.defstruct(
        resource.kind,
        [],
        bases=(CustomObject,),
        namespace={"RESOURCE": resource},
        frozen=True,
        gc=False,
        forbid_unknown_fields=False,
    )
    return cast("type[CustomObject]", made)
