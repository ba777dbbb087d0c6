"""The one client interface: what every part may ask of an API server, near or far.

`InProcess` and `Http` are such clients and pass the same tests, so a part never knows whether its server is in the same
process. The methods make calls (`dray.api.calls`), which say everything; a client only answers calls. Objects are read typed and are shared: nobody changes what was read. Objects are written as plain JSON trees,
which belong to the server from then on: build a new one for each call. Left out: caching (`informer`), and retries of
conflicts (the caller knows what to read again).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.calls import (
    AnsweredByObject,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    Deletion,
    GetCall,
    ListCall,
    Patch,
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
from dray.api.wire import Tree, Wire

T = TypeVar("T", bound=Object)


class Page(NamedTuple, Generic[T]):
    """One page of a list, and where the next one starts (`continue_` is empty on the last)."""

    items: tuple[T, ...]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. `object` of a BOOKMARK carries only `metadata.resourceVersion`; of a DELETED, the last state."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    object: T
    resource_version: str  # where to go on after this change


Batch = list[WatchEvent[T]]


class Client(ABC):
    """One user's way to an API server.

    Every method raises a subclass of `dray.api.errors.ApiError`, whatever went wrong: an answer of the server keeps
    its reason, a connection that fails is `ServiceUnavailable`, an answer that is no JSON `InternalError`.
    """

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        """Read one object; `NotFound` when there is none."""
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
        """Read one page of objects; without namespace, those of all namespaces; without limit, all of them."""
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
        """Create an object, or post to a subresource of the object `name`.

        `namespace` may be left out when the object names it. A typed object must be complete as it is, with nothing
        left to put into its canonical form. A subresource answers with its own kind, whatever the annotation says:
        `token` with an authentication.TokenRequest, `binding` and `eviction` with a meta.Status.
        """
        resource = resource_of(type_)
        place = resource, _namespace(resource, obj, namespace), name if subresource else "", subresource
        return cast(T, await self._object(CreateCall(*place, body=cast(Tree | Wire, obj))))

    async def update(
        self, type_: type[T], tree: Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        """Replace an object; a resourceVersion in the tree makes it conditional. Name and namespace default to those
        in the tree."""
        resource = resource_of(type_)
        name = name or (tree.get("metadata") or {}).get("name") or ""
        place = resource, _namespace(resource, tree, namespace), required_name(resource, name), subresource
        return cast(T, await self._object(UpdateCall(*place, tree=tree)))

    async def patch(
        self,
        type_: type[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> T:
        """Change an object. `manager` names the field manager; `APPLY` needs one, and `force` takes fields over."""
        resource = resource_of(type_)
        place = resource, namespace, required_name(resource, name), subresource
        return cast(T, await self._object(PatchCall(*place, patch=patch, kind=kind, manager=manager, force=force)))

    async def patch_status(self, obj: T, status: Any) -> T:
        """Make `status` the status of an object that was read, and return the object as it was written.

        `status` is typed and whole; most are made of `obj.status` with `msgspec.structs.replace`. Only the fields in
        which the two differ are written, and nulls in opaque parameters stay. `Conflict` when the object was written
        since it was read, or when another object has its name; `dray.client.status.change_status` then tries again.
        """
        resource, meta, read = resource_of(type(obj)), obj.metadata, cast(Wire, obj)
        place = resource, meta.namespace, required_name(resource, meta.name)
        return cast(T, await self._object(StatusCall(*place, read=read, wanted=replace(read, status=status))))

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
        """Delete an object; `uid` and `resource_version` are preconditions (`Conflict` when they do not hold)."""
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
        """Delete all objects that the selectors match."""
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
    ) -> AsyncGenerator[Batch[T], None]:
        """Follow changes after `resource_version`, in batches; ends when the server ends it or after `timeout` seconds.

        It ends also when nothing is heard of the server for long, not even a bookmark: go on from the last version.
        Raises `Expired` (from the iteration) when that version is too old. Close it (`contextlib.aclosing`) to stop.
        A batch is never empty, and its order is that of the server.
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
        """Whether the server has the resource. A list or watch that ends with `NotFound` does not say so: proxies, and
        servers that are not ready, answer the same. Raises when the server does not say."""

    @abstractmethod
    async def aclose(self) -> None:
        """Give connections back; the client is of no use afterwards."""

    @abstractmethod
    async def _object(self, call: AnsweredByObject) -> Any:
        """Returns the object that the server answers with."""

    @abstractmethod
    async def _page(self, call: ListCall) -> Page[Any]:
        """Returns a page of a list; of a call without limit, the whole list."""

    @abstractmethod
    async def _delete(self, call: Deletion) -> None: ...

    @abstractmethod
    def _changes(self, type_: type[T], call: WatchCall) -> AsyncGenerator[Batch[T], None]:
        """Follow changes of objects of a type."""


def required_name(resource: Resource, name: str) -> str:
    """Refuse a call that would mean the whole collection."""
    if not name:
        raise BadRequest(f"a name is required to address one of the {resource.plural}")
    return name


def _namespace(resource: Resource, obj: Object | Tree, namespace: str) -> str:
    """The namespace of a write: the caller's, or the object's; none for cluster-wide resources."""
    if not resource.namespaced:
        return ""
    if not namespace:
        named = (obj.get("metadata") or {}).get("namespace") if isinstance(obj, dict) else obj.metadata.namespace
        namespace = named or ""
    if not namespace:
        raise BadRequest(f"{resource.plural} are namespaced: a namespace is required to write one")
    return namespace


def resource_of(type_: type[Object]) -> Resource:
    """The row of the resource table that a type of the interface stands for; a type of a custom resource has its own."""
    found: Resource | None = BY_TYPE.get(type_)  # type: ignore[arg-type]  # types of custom resources are not in it
    if found is None:
        found = getattr(type_, "RESOURCE", None)
        if found is None and issubclass(type_, CustomObject):
            raise NotFound(f"{type_.__name__} is not defined any more")
        if found is None:
            raise KeyError(type_)
    return found


def type_of(resource: Resource) -> type[Object]:
    """The other way around: the type to ask a client for."""
    return cast("type[Object]", resource.type if resource.custom is None else _custom_type(resource))


def _custom_type(resource: Resource) -> type[CustomObject]:
    """The type that stands for one custom resource: kept with it, so that a definition which goes leaves nothing behind."""
    assert resource.custom is not None
    types = resource.custom.client_types
    if resource not in types:
        types[resource] = _made_type(resource)
    return types[resource]


def _made_type(resource: Resource) -> type[CustomObject]:
    """A type for a custom resource. It reads what controllers of all kinds look at: metadata above all."""
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
