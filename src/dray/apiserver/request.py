"""The request to the API server and its answer, used by every entry point.

HTTP builds a Request from a path, a query and a body; `request_of` builds a Request from a call of a component in the
same process. The body tree belongs to the request, because defaulting and patching change the tree in place.
Therefore `request_of` copies the body of a write: the caller may go on changing its own, and tuples become lists. The
body of a created Pod or ResourceClaim is not copied here, because the registry reads only the parts that differ from
an earlier object of the same template and copies the rest as needed. An Answer holds what the store holds: typed
objects and encoded bytes. Wire formats are not part of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.api.calls import (
    AnsweredCall,
    Caller,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    GetCall,
    ListCall,
    PatchCall,
    StatusCall,
    UpdateCall,
    WatchCall,
)
from dray.api.resources import Resource
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.wire import Wire
from dray.apiserver.limits import LARGE
from dray.store.log import KeyVersion

if TYPE_CHECKING:
    from dray.api.users import User


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Query options of all verbs. A verb ignores the options that do not apply to it."""

    # list, watch and deletecollection
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""  # of get, list and watch; empty: the most recent state
    resource_version_match: str = ""  # "", Exact, NotOlderThan
    # watch
    timeout_seconds: float | None = None
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    # create, update, patch
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Ignore"  # Strict, Warn, Ignore
    patch_type: str = MERGE_PATCH
    force: bool = False  # server-side apply takes fields from other managers
    # delete and deletecollection
    grace_period_seconds: int | None = None
    propagation_policy: str = ""  # "", Orphan, Background, Foreground
    precondition_uid: str = ""
    precondition_resource_version: str = ""


DEFAULT_OPTIONS = RequestOptions()
MADE_FROM_TEMPLATES: frozenset[type[Wire]] = frozenset({Pod, ResourceClaim})
"""The kinds whose new objects are compared with earlier ones (`write.memo`): they are made from templates."""
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class Repeated(msgspec.Struct, frozen=True):
    """Messages about duplicate fields in a body (JSON fields or YAML lines), which its decoded tree no longer shows."""

    fields: Sequence[str] = ()
    lines: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.lines)

    @property
    def errors(self) -> list[str]:
        """Error messages in Kubernetes' wording. All messages about YAML form one error."""
        return [
            *self.fields,
            *(["yaml: unmarshal errors:" + "".join(f"\n  {line}" for line in self.lines)] if self.lines else ()),
        ]


NOTHING_TWICE = Repeated()


class Request(msgspec.Struct, kw_only=True):
    """One request: user, verb, resource and object.

    `version` is the API version that the body is written in; empty means the stored version. Callers in the same
    process always get typed objects of the stored version. The user agent names the field manager if no field manager
    is given.
    """

    user: User
    verb: str  # get, list, watch, create, update, patch, delete, deletecollection
    resource: Resource
    version: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None  # a tree; a create from the same process may have a typed object
    options: RequestOptions = DEFAULT_OPTIONS
    user_agent: str = ""
    tracked: bool = False  # record managedFields even if no manager is named
    awaited: bool = False  # a client of another process waits: its commit is acknowledged before other commits
    is_large: bool = False  # the body is large, so its steps run in the worker thread
    repeated: Repeated = NOTHING_TWICE
    complaints: Sequence[str] = ()  # about unknown and duplicate fields of the body, once the body is decoded


def copied(body: Any) -> tuple[Any, bool]:
    """Copy a tree. Returns the copy and whether its encoding is larger than 32 KiB."""
    data = _encode(body)
    return _decode(data), len(data) > LARGE


def request_of(caller: Caller, call: AnsweredCall | WatchCall) -> Request:
    """Return the Request for a call of a component in this process."""
    name = subresource = ""
    body: Any = None
    options, is_large = DEFAULT_OPTIONS, False
    match call:  # the most frequent writes come first
        case CreateCall():
            name, subresource, body = call.name, call.subresource, call.body
            is_templated = not subresource and call.resource.type in MADE_FROM_TEMPLATES
            if not is_templated and not isinstance(body, Wire):
                body, is_large = copied(body)
        case StatusCall():
            name, subresource, body = call.name, "status", call.wanted
        case GetCall():
            name = call.name
        case UpdateCall():
            name, subresource = call.name, call.subresource
            body, is_large = copied(call.tree)
        case PatchCall():
            name, subresource, body = call.name, call.subresource, call.patch
            options = RequestOptions(patch_type=call.kind.value, field_manager=call.manager, force=call.force)
        case DeleteCall():
            name = call.name
            options = RequestOptions(
                grace_period_seconds=call.grace,
                propagation_policy=call.propagation,
                precondition_uid=call.uid,
                precondition_resource_version=call.resource_version,
            )
        case _:
            options = _options_of(call)
    return Request(
        user=caller.user,
        verb=call.verb,
        resource=call.resource,
        namespace=call.namespace if call.resource.namespaced else "",
        name=name,
        subresource=subresource,
        body=body,
        options=options,
        user_agent=caller.agent,
        is_large=is_large,
    )


def _options_of(call: ListCall | WatchCall | DeleteCollectionCall) -> RequestOptions:
    """Return the options of a call about many objects."""
    match call:
        case ListCall():
            return RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                limit=call.limit,
                continue_token=call.continue_,
                resource_version=call.resource_version,
            )
        case WatchCall():
            return RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                resource_version=call.resource_version,
                allow_bookmarks=call.bookmarks,
                timeout_seconds=call.timeout,
            )
        case DeleteCollectionCall():
            return RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                grace_period_seconds=call.grace,
                propagation_policy=call.propagation,
            )


class Answer(msgspec.Struct, kw_only=True):
    """Answer to a request other than watch.

    `version` is one object, `versions` a list. `tree` is a response without a stored object, in the requested
    version: reviews, Scale, TokenRequest, and the Status of a deletion (which also has the deleted object in
    `version`).
    """

    code: int = 200
    version: KeyVersion | None = None
    versions: Sequence[KeyVersion] | None = None
    tree: dict[str, Any] | None = None
    revision: int = 0  # of a list
    continue_token: str = ""
    remaining: int | None = None
    warnings: Sequence[str] = ()

    @property
    def object(self) -> Wire:
        """The typed, shared, immutable object of an answer with one object."""
        assert self.version is not None
        found: Wire = self.version.object
        return found

    @property
    def items(self) -> list[Wire]:
        """The typed, shared, immutable objects of a list."""
        return [version.object for version in self.versions or ()]


LogSource = Callable[[Request, dict[str, str]], Any]
"""(request for pods/log, query) → an asynchronous iterator of bytes; set by whoever knows the nodes."""
