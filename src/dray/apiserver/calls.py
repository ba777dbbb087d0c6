"""From a call of another part of this process to the request that the server works on.

A tree that is to be stored is encoded and decoded once: the caller may keep it, and its tuples become lists. Of a new
object that may be like one before it, only the parts that differ are read, so the registry copies its tree where needed.
"""

from __future__ import annotations

from dray.api.calls import (
    AnsweredCall,
    Caller,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    GetCall,
    ListCall,
    ObjectCall,
    PartCall,
    PatchCall,
    StatusCall,
    UpdateCall,
    WatchCall,
)
from dray.api.wire import Wire
from dray.apiserver.request import MADE_FROM_TEMPLATES, Request, RequestOptions, copied


def request_of(caller: Caller, call: AnsweredCall | WatchCall) -> Request:
    """The request that a call makes."""
    resource = call.resource
    request = Request(
        user=caller.user,
        verb=call.verb,
        resource=resource,
        namespace=call.namespace if resource.namespaced else "",
        name=call.name if isinstance(call, ObjectCall) else "",
        subresource=call.subresource if isinstance(call, PartCall) else "",
        user_agent=caller.agent,
    )
    match call:
        case GetCall():
            pass  # the most frequent call, and complete
        case CreateCall(body=body):
            is_templated = not call.subresource and resource.type in MADE_FROM_TEMPLATES
            request.body, request.is_large = (body, False) if is_templated or isinstance(body, Wire) else copied(body)
        case UpdateCall():
            request.body, request.is_large = copied(call.tree)
        case StatusCall():
            request.subresource, request.body = "status", call.wanted
        case PatchCall():
            request.body = call.patch
            request.options = RequestOptions(patch_type=call.kind.value, field_manager=call.manager, force=call.force)
        case ListCall():
            request.options = RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                limit=call.limit,
                continue_token=call.continue_,
                resource_version=call.resource_version,
            )
        case WatchCall():
            request.options = RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                resource_version=call.resource_version,
                allow_bookmarks=call.bookmarks,
                timeout_seconds=call.timeout,
            )
        case DeleteCall():
            request.options = RequestOptions(
                grace_period_seconds=call.grace,
                propagation_policy=call.propagation,
                precondition_uid=call.uid,
                precondition_resource_version=call.resource_version,
            )
        case DeleteCollectionCall():
            request.options = RequestOptions(
                label_selector=call.labels,
                field_selector=call.fields,
                grace_period_seconds=call.grace,
                propagation_policy=call.propagation,
            )
    return request
