"""The API server's entry point: every request passes here, whether from HTTP or from a component in the same process.

A request is authorized, then its verb runs: reads come from the cache, writes go through admission and the registry
to the store. Components in the same process get the typed objects that the cache holds. Authentication and wire
formats are not part of this module.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from dray.api.calls import AnsweredCall, Caller, WatchCall
from dray.api.errors import NotImplementedYet, UnsupportedMediaType, not_found
from dray.api.gates import FeatureGates
from dray.api.pace import Pace
from dray.api.resources import BY_TYPE, METRICS
from dray.api.types.resource import ResourceSlice
from dray.api.users import MASTERS
from dray.api.wire import tree_of
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.custom.conversion_review import ConversionFailed
from dray.apiserver.custom.conversions import Conversions
from dray.apiserver.outages import unavailable
from dray.apiserver.priority import RequestPriority
from dray.apiserver.read import listing
from dray.apiserver.read.measured import Measured
from dray.apiserver.read.storage import Storage
from dray.apiserver.read.watching import WatchedChange, Watching
from dray.apiserver.request import APPLY_PATCH, STRATEGIC_PATCH, Answer, LogSource, Request, request_of
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.steps import RequestResolver
from dray.apiserver.streaming.options import ConnectOptions
from dray.apiserver.wire.paths import WrongMethod
from dray.apiserver.write.commits import Commits
from dray.apiserver.write.deletion import Deletion
from dray.apiserver.write.registry import Registry
from dray.apiserver.write.second_look import with_second_look
from dray.apiserver.write.subresources import IssueToken, Subresources
from dray.background import Background
from dray.store import StoreError

ConnectOptionsType = TypeVar("ConnectOptionsType", bound=ConnectOptions)
AnswerReview = Callable[[Request], dict[str, Any]]

SLICES = BY_TYPE[ResourceSlice]
_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
UPDATES_A_SECOND = 50.0  # updates per second of one driver's ResourceSlices on one node; also the burst
_PATCHES_OF_CUSTOM = (
    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
    "application/merge-patch+json, application/apply-patch+yaml"
)


class ApiServer:
    """Authorizes and answers requests.

    `reviews` maps a plural name, such as subjectaccessreviews, to the function that answers a create of that resource
    without storing an object.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        gates: FeatureGates | None = None,
        authorizer: Union | None = None,
        admission: Chain | None = None,
        reviews: Mapping[str, AnswerReview] | None = None,
        issue_token: IssueToken | None = None,
        conversions: Conversions | None = None,
        resolver: RequestResolver | None = None,
    ) -> None:
        self.storage = storage
        self._conversions = conversions = conversions or Conversions(storage)
        self.resolver = resolver = resolver or RequestResolver(Background())
        self.gates = gates or FeatureGates()
        self.authorizer = authorizer
        self.log_source: LogSource | None = None
        self.measured: Measured | None = None  # None without a connection to nodes
        self.priority = RequestPriority()
        admission = admission or Chain(())
        commits = Commits(storage.cache, admission)
        self._registry = registry = Registry(storage, commits, admission, self.gates, conversions, resolver)
        deletion = Deletion(storage, commits, admission)
        self._subresources = Subresources(storage, commits, admission, registry, deletion, issue_token, conversions)
        self._admission = admission
        self._reviews = reviews or {}
        self._watching = Watching(storage.cache)
        self._pace = Pace(UPDATES_A_SECOND, int(UPDATES_A_SECOND))
        # If other servers share the store, a write that was refused on an outdated cache is retried.
        self._do: Callable[[Request], Coroutine[Any, Any, Answer]] = self._attempt
        if not storage.cache.is_local:
            self._do = partial(with_second_look, storage.cache, attempt=self._attempt)
        self._verbs: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._update,
            "delete": deletion.delete,
            "deletecollection": deletion.delete_collection,
        }

    def answer(self, caller: Caller, call: AnsweredCall) -> Coroutine[Any, Any, Answer]:
        """Execute a call of a component in this process. Returns the Answer, or raises an ApiError."""
        return self.handle(request_of(caller, call))

    def follow(self, caller: Caller, call: WatchCall) -> AsyncGenerator[list[WatchedChange], None]:
        """Watch on behalf of a component in this process. Yields batches of changes, as `watch` does."""
        return self.watch(request_of(caller, call))

    def handle(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Authorize and execute a request other than watch. Returns the Answer, or raises an ApiError."""
        self.authorize(request)
        return self._handle_converted(request) if request.resource.converts else self._do(request)

    async def _handle_converted(self, request: Request) -> Answer:
        """Execute a request for a custom resource that a webhook converts between versions.

        Objects are read and returned in the version of the request. If the conversion webhook fails after a deletion,
        a plain Success Status is returned instead of the deleted object.
        """
        resource = request.resource
        assert resource.custom is not None
        seen = resource.custom.seen_in(resource, request.version or resource.stored)
        seen = dataclasses.replace(seen, converted={})
        answer = await self._do(msgspec.structs.replace(request, resource=seen))
        try:
            return await self._conversions.answer(request, answer)
        except ConversionFailed:
            if request.verb not in ("delete", "deletecollection"):
                raise
            return Answer(code=answer.code, tree=dict(_DONE), warnings=answer.warnings)  # done, without the webhook

    async def _attempt(self, request: Request) -> Answer:
        """Execute a request once. Returns its Answer.

        Raises ServiceUnavailable if the store fails, WrongMethod for an unknown verb, UnsupportedMediaType for a
        strategic merge patch of a custom resource.
        """
        if request.resource.custom is not None and request.options.patch_type == STRATEGIC_PATCH:
            raise UnsupportedMediaType(_PATCHES_OF_CUSTOM)
        try:
            if request.subresource:
                return await self._subresources.handle(request)
            if request.resource.group == METRICS:
                return await self._measure(request)
            verb = self._verbs.get(request.verb)
            if verb is None:
                raise WrongMethod
            return await verb(request)
        except StoreError as error:
            raise unavailable(error) from error

    def _measure(self, request: Request) -> Awaitable[Answer]:
        """Return the answer to a request for metrics.k8s.io. Raises NotImplementedYet without a connection to nodes."""
        if self.measured is None:
            raise NotImplementedYet("nothing is measured: this server has no connection to nodes")
        return self.measured.answer(request)

    async def connect(self, request: Request, options: ConnectOptionsType) -> ConnectOptionsType:
        """Run admission for a CONNECT request (exec, attach, port-forward or proxy) before the connection starts.

        Returns the options as changed by mutating webhooks. Raises ApiError if admission denies the connection.
        """
        admission = AdmissionRequest(
            user=request.user,
            operation="CONNECT",
            resource=request.resource,
            namespace=request.namespace,
            name=request.name,
            subresource=request.subresource,
            version=request.version,
            tree=tree_of(options),
            object=options,
        )
        await self._admission.admit(admission)
        admission.object = options = msgspec.convert(admission.tree, type(options))
        await self._admission.validate(admission)
        await admission.release()
        return options

    def watch(self, request: Request) -> AsyncGenerator[list[WatchedChange], None]:
        """Yield changes in batches.

        An error of the request is raised by this call; Expired is raised by the iteration.
        """
        self.authorize(request)
        changes = self._watching.changes(request)
        if request.resource.converts and request.version:
            return self._conversions.changes(request, changes)
        return changes

    async def close(self) -> None:
        """Stop computations that requests left running in the background."""
        await self._conversions.aclose()
        await self.resolver.background.close()

    def end_watches(self) -> None:
        """End all watches, so that their connections close when the server stops."""
        self._watching.end()

    def authorize(self, request: Request) -> None:
        """Raise Forbidden unless the user may perform the request.

        A request that will create an object needs `create` too.
        """
        if self.authorizer is None or MASTERS in request.user.groups:
            return
        verbs = (request.verb, "create") if self._creates(request) else (request.verb,)
        resource = request.resource
        for verb in verbs:
            self.authorizer.check(
                request.user,
                Attributes(
                    verb,
                    resource.group,
                    resource.plural,
                    request.subresource,
                    request.namespace,
                    request.name,
                    field_selector=request.options.field_selector,
                ),
            )

    def _creates(self, request: Request) -> bool:
        """Return whether an apply or an update will create its object, because the object does not exist."""
        applies = request.verb == "patch" and request.options.patch_type == APPLY_PATCH
        replaces = request.verb == "update" and request.resource.is_created_by_update
        if request.subresource or not (applies or replaces):
            return False
        return self.storage.get(request.resource, request.namespace, request.name) is None

    # Verbs

    async def _get(self, request: Request) -> Answer:
        """Return one object. Raises NotFound if it does not exist, BadRequest if the resourceVersion is invalid.

        Without resourceVersion the read waits for the latest state, with a number for that revision; with "0" it does
        not wait.
        """
        cache = self.storage.cache
        wanted = request.options.resource_version
        if not wanted:
            await cache.read()
        elif wanted != "0":
            await listing.fresh(cache, listing.revision_of(wanted))
        version = cache.get(request.resource.key(request.namespace, request.name))
        if version is None:
            raise not_found(request.resource, request.name)
        return Answer(version=version)

    async def _list(self, request: Request) -> Answer:
        return await listing.list_objects(self.storage.cache, request)

    def _create(self, request: Request) -> Awaitable[Answer]:
        """Create an object, or answer a review or a Binding. Returns an awaitable of the Answer."""
        plural = request.resource.plural
        if plural in self._reviews:
            return self._review(request)
        if plural == "bindings":
            return self._subresources.bind(request)
        return self._registry.create(request)

    def _update(self, request: Request) -> Awaitable[Answer]:
        """Update or patch an object. Returns an awaitable of the Answer."""
        change = self._registry.patch if request.verb == "patch" else self._registry.update
        return self._paced(request, change) if request.resource is SLICES else change(request)

    async def _paced(self, request: Request, change: Callable[[Request], Awaitable[Answer]]) -> Answer:
        """Update a ResourceSlice with `change`. Returns its Answer.

        Updates of a node's slices are delayed above a rate per node and driver.
        """
        found = self.storage.get(SLICES, "", request.name)
        if isinstance(found, ResourceSlice) and found.spec.nodeName:
            delay = self._pace.delay(time.monotonic(), (found.spec.nodeName, found.spec.driver))
            if delay > 0:
                await asyncio.sleep(delay)
        return await change(request)

    async def _review(self, request: Request) -> Answer:
        """Return the answer to a review, such as a SubjectAccessReview, with code 201."""
        return Answer(code=201, tree=self._reviews[request.resource.plural](request))
