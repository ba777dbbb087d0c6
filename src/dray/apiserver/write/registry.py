"""Writes of objects: create, update, patch and apply, from a request to a commit.

Every write takes the same steps: read the body, let admission mutate it, finish it (`finish`: the strategy of the
resource decides which fields the client may set, and a typed object is made), validate it, let admission validate it,
commit. Nothing is copied: a tree belongs to its request, and stored objects are immutable. A new object that
resembles an earlier one reuses its result (`memo`). The registry uses a resource only through its row in the resource
table, so custom resources take the same steps. Deletion is in `deletion`; subresources that do more than replace a
part of their object are in `subresources`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec

from dray.api import strategy, validation
from dray.api.custom import CustomObject
from dray.api.errors import (
    BadRequest,
    FieldError,
    Invalid,
    MethodNotAllowed,
    already_exists,
    conflict,
    invalid,
    not_found,
)
from dray.api.gates import FeatureGates
from dray.api.needs import KnownValues, Lacking
from dray.api.resources import Resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.types.core import Service
from dray.api.wire import Tree, Wire
from dray.apiserver.admission import AdmissionRequest, Chain, Operation
from dray.apiserver.custom.conversions import Conversions
from dray.apiserver.limits import LARGE
from dray.apiserver.read.storage import Storage, encode
from dray.apiserver.request import (
    APPLY_PATCH,
    DEFAULT_OPTIONS,
    JSON_PATCH,
    MADE_FROM_TEMPLATES,
    MERGE_PATCH,
    Answer,
    Request,
    copied,
)
from dray.apiserver.steps import RequestResolver
from dray.apiserver.wire.bodies import ORDINARY
from dray.apiserver.wire.slots import OneByOne
from dray.apiserver.write import identity, managers
from dray.apiserver.write.commits import Commits, TakenMeanwhile
from dray.apiserver.write.deletion import gone_when_written
from dray.apiserver.write.finish import Finish
from dray.apiserver.write.managers import Entries
from dray.apiserver.write.memo import Memo, question_of
from dray.apiserver.write.patches import Applied, Effort, TakesLong, json_patch, merge_patch, strategic_merge
from dray.apiserver.write.scales import scale_of
from dray.apiserver.write.service_addresses import SERVICES
from dray.apiserver.write.validators import Validators
from dray.background.turns import Steps
from dray.store import KeyVersion, RevisionConflict

T = TypeVar("T")
ValidateObject = Callable[[Resource, Wire, validation.Context], list[FieldError]]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS = 8  # retries after a conflict or a generated name that exists; more would hide a livelock


class Registry:
    """Executes create, update, patch and apply for all resources."""

    def __init__(
        self,
        storage: Storage,
        commits: Commits,
        admission: Chain,
        gates: FeatureGates,
        conversions: Conversions,
        resolver: RequestResolver,
    ) -> None:
        self._storage = storage
        self._conversions = conversions
        self._resolver = resolver
        self._commits = commits
        self._admission = admission
        self._finish = Finish(storage, gates)
        self._validators = Validators(gates)
        self._memo = Memo()
        self._unfolding = OneByOne()
        self._contended: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # locks by object

    # Creation

    async def create(self, request: Request) -> Answer:
        """Create an object. Returns its stored state. Raises AlreadyExists, Invalid or another ApiError."""
        kind = request.resource.custom
        if kind is not None and kind.definition.metadata.deletionTimestamp is not None:
            text = "create not allowed while custom resource definition is terminating"
            raise MethodNotAllowed(text, group=request.resource.group, kind=request.resource.plural)
        reads = self._admission.reads(request.resource.type, "CREATE")
        question = None if reads is None or request.repeated else question_of(request, reads)
        for _ in range(_ATTEMPTS):
            obj = self._memo.recall(question) or (self._finish.as_it_is(request) if reads == () else None)
            if obj is None:
                break
            try:
                return await self._create_finished(request, obj, is_known=question is not None)
            except RevisionConflict:
                if question is None or question.name:
                    raise already_exists(request.resource, obj.metadata.name) from None
        if isinstance(request.body, Wire) or (request.resource.type in MADE_FROM_TEMPLATES and not request.tracked):
            # The caller keeps its own tree, which must not change.
            request.body, request.is_large = copied(request.body)
        answer = await self._create_tree(request)
        self._memo.learn(question, answer)
        return answer

    async def _create_finished(self, request: Request, obj: Any, *, is_known: bool) -> Answer:
        """Create an object that needs no more mutation. Returns its stored state.

        If `is_known`, only its metadata is validated.
        """
        admission = _asked(request, "CREATE", obj.metadata.name)
        await self._admission.admit(admission)
        validate = validation.validate_copy if is_known else validation.validate_create
        return await self._store(request, admission, obj, validate)

    async def _create_tree(self, request: Request) -> Answer:
        """Create an object from a tree. Returns its stored state.

        If a generated name already exists, another name is generated. Raises AlreadyExists if a given name exists, or
        after too many attempts.
        """
        request.is_large = _is_large(request)
        tree, warnings, generates = await self._run(request, self._begun, request)
        metadata = tree["metadata"]
        for _ in range(_ATTEMPTS):
            tried = metadata.get("name")
            try:
                return await self._create(request, tree, warnings)
            except TakenMeanwhile:
                continue
            except RevisionConflict:
                if not generates or metadata["name"] != tried:  # a name chosen by admission is not generated again
                    break
                metadata["name"] = identity.generated(metadata["generateName"])
        raise already_exists(request.resource, metadata["name"])

    def _begun(self, request: Request) -> tuple[Tree, list[str], bool]:
        """Return a new tree before admission, the warnings about its body, and whether its name is generated.

        Raises BadRequest if the body has a resourceVersion.
        """
        tree, warnings = self._finish.read(request, request.body)
        metadata = identity.metadata_of(tree)
        identity.place(request, metadata)
        if metadata.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        generates = not metadata.get("name") and bool(metadata.get("generateName"))
        identity.begin(metadata)
        managers.track(request, None, tree)  # before admission, because fields that admission adds have no owner
        return tree, warnings, generates

    async def _create(self, request: Request, tree: Tree, warnings: list[str]) -> Answer:
        """Run admission on a new tree, finish it and store it. Returns its stored state."""
        metadata = tree["metadata"]
        uid, created = metadata["uid"], metadata["creationTimestamp"]
        admission = _asked(request, "CREATE", metadata.get("name") or "", tree=tree)
        admission.warnings += warnings
        await self._admission.admit(admission)
        request.is_large |= admission.is_large  # admission may have made it large
        identity.settle(request, metadata, uid, created)
        admission.name = metadata.get("name") or ""
        obj = await self._run(request, self._finish.new, request, tree, admission.warnings)
        if request.resource is SERVICES:
            obj = self._commits.services.assign(cast(Service, obj))
        admission.warnings += strategy.unused(request.resource) + strategy.warnings(request.resource, obj)
        return await self._store(request, admission, obj, validation.validate_create)

    async def _store(self, request: Request, admission: AdmissionRequest, obj: Wire, judge: ValidateObject) -> Answer:
        """Validate and store a new object.

        Returns its stored state. Raises RevisionConflict if an object of this name exists.
        """
        resource = admission.resource
        await self._check(request, admission.name, partial(judge, resource, obj))
        admission.object = obj
        if resource.converts:  # before admission reserves quota, because the conversion may take long
            obj = await self._conversions.stored(resource, cast(CustomObject, obj))
        await self._admission.validate(admission)
        key = resource.key(admission.namespace, admission.name)
        version = await self._commits.write(admission, key, obj, expected=0)
        return Answer(code=201, version=version, warnings=admission.warnings)

    # Changes

    async def update(self, request: Request) -> Answer:
        """Replace an object. Returns its stored state.

        Without a resourceVersion in the body, the update is retried on conflicts. With one, raises a Conflict error
        if the object has changed.
        """
        body, resource = request.body, request.resource
        if isinstance(body, dict) and bool(identity.metadata_of(body).get("resourceVersion")):
            try:
                return await self._update(request, body)
            except RevisionConflict:
                raise conflict(resource, request.name, MODIFIED) from None
        original, unused = encode(body), [body]

        def attempt() -> Awaitable[Answer]:
            tree = unused.pop() if unused else msgspec.json.decode(original)
            return self._update(request, tree, is_forced=True)

        return await self._insist(request, attempt)

    async def _update(self, request: Request, body: Any, *, is_forced: bool = False) -> Answer:
        """Make one attempt at an update.

        Returns the stored state. With `is_forced`, the body has no resourceVersion. Raises RevisionConflict if
        another write came first, NotFound if the object does not exist and is not created by an update, Invalid if
        the resource needs a resourceVersion.
        """
        resource = request.resource
        current = await self._current(request)
        if current is None and resource.is_created_by_update and not request.subresource:
            return await self.create(msgspec.structs.replace(request, body=body))
        request.is_large = _is_large(request, current)
        tree, warnings = await self._run(request, self._finish.read, request, body, current)
        if current is None:  # checked only now, because an unreadable body is rejected first
            raise not_found(resource, request.name)
        if is_forced and not strategy.allows_unconditional_update(resource, request.version or resource.stored):
            missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid(resource, request.name, [missing], kind=resource.plural)
        return await self._replace(request, current, tree, warnings)

    async def _insist(self, request: Request, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Retry a change while other writers cause conflicts.

        Returns its Answer. Raises Conflict after eight attempts. From the second attempt on, writers of one object
        take turns. If other processes write to the store too, only one of many concurrent attempts could succeed
        otherwise.
        """
        try:
            return await attempt()
        except RevisionConflict:
            return await self._insist_in_turn(request, attempt)

    async def _insist_in_turn(self, request: Request, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeat a change that another writer has prevented, one writer at a time. Returns its Answer.

        Raises a Conflict error after too many attempts.
        """
        key = f"{request.resource.plural}/{request.namespace}/{request.name}"
        lock = self._contended.get(key)
        if lock is None:
            lock = self._contended[key] = asyncio.Lock()
        async with lock:
            for _ in range(_ATTEMPTS - 1):
                with suppress(RevisionConflict):
                    return await attempt()
        raise conflict(request.resource, request.name, MODIFIED) from None

    async def patch(self, request: Request) -> Answer:
        """Patch or apply an object. Returns its stored state.

        Raises NotFound if there is none to patch; an apply creates it instead.
        """
        if request.options.patch_type == APPLY_PATCH:
            return await self._apply(request)
        if isinstance(request.body, Wire):
            return await self._insist(request, partial(self._patch_typed, request))
        try:
            return await self._patch(request)
        except TakesLong:  # a small patch with a large result or much work
            request.is_large = True
            async with self._unfolding.turn(request.user):
                return await self._patch(request)

    async def _patch(self, request: Request) -> Answer:
        """Patch an object. Returns its stored state. Raises TakesLong, with nothing changed, for long work.

        The patch must then be applied in the worker thread.
        """
        original = b""

        async def attempt() -> Answer:
            nonlocal original
            current = await self._current(request)
            if current is None:
                raise not_found(request.resource, request.name)
            request.is_large = _is_large(request, current)
            if (obj := self._finish.with_metadata(request, current)) is not None:
                return await self._store_change(request, _asked(request, "UPDATE", request.name), current, obj)
            original = original or encode(request.body)
            tree, warnings = await self._unfolded(request, current, original)
            return await self._replace(request, current, tree, warnings)

        return await self._insist(request, attempt)

    async def _patch_typed(self, request: Request) -> Answer:
        """Write the status of an object for a component in this process. Returns the stored state.

        The body is the object as the component read it, with a new status. Raises Conflict if the object has changed
        since.
        """
        current, body = await self._current(request), request.body
        if current is None:
            raise not_found(request.resource, request.name)
        request.is_large = _is_large(request, current)
        old, meant = current.object, body.metadata
        if (meant.uid, meant.resourceVersion) != (old.metadata.uid, str(current.revision)):
            raise conflict(request.resource, request.name, MODIFIED)
        if (obj := self._finish.with_status(request, old, body.status)) is not None:
            return await self._store_change(request, _asked(request, "UPDATE", request.name), current, obj)
        tree, warnings = await self._run(request, self._with_status, request, current)
        return await self._replace(request, current, tree, warnings)

    def _with_status(self, request: Request, current: KeyVersion) -> tuple[Tree, list[str]]:
        """Return the tree of the current object with the new status, and the warnings about it."""
        stored = managers.stored(current) | {"status": msgspec.json.decode(encode(request.body.status))}
        return self._finish.read(request, stored, current)

    async def _apply(self, request: Request) -> Answer:
        """Apply an object with server-side apply; creates it if it does not exist. Returns its stored state.

        Raises NotFound if a subresource is applied to an object that does not exist.
        """
        original = encode(request.body)

        async def attempt() -> Answer:
            current = await self._current(request)
            request.is_large = _is_large(request, current)
            applied = await self._run(request, _applied, request, current, original)
            tree, warnings = await self._run(request, self._finish.read, request, applied.tree, current)
            if current is not None:
                return await self._replace(request, current, tree, warnings, applied.managed)
            if request.subresource:
                raise not_found(request.resource, request.name)
            metadata = identity.metadata_of(tree)
            identity.place(request, metadata)
            identity.begin(metadata)
            metadata["managedFields"] = applied.managed
            return await self._create(request, tree, warnings)

        return await self._insist(request, attempt)

    async def _replace(
        self, request: Request, current: KeyVersion, tree: Tree, warnings: list[str], entries: Entries | None = None
    ) -> Answer:
        """Replace the current state by a tree, after admission. Returns the stored state.

        `entries` are the new managedFields, or None if they are to be updated here. Raises RevisionConflict if
        another write came first.
        """
        metadata = identity.metadata_of(tree)
        identity.place(request, metadata)
        _keep_identity(request, metadata, current)
        admission = _asked(request, "UPDATE", request.name, tree=tree)
        admission.old = current.object
        admission.warnings += warnings
        if request.subresource != "scale":  # admission has already processed the Scale
            await self._admission.admit(admission)
        request.is_large |= admission.is_large  # admission may have made it large
        _check_mutated(request, metadata, current)
        _keep_identity(request, metadata, current)
        obj = await self._changed(request, tree, current, entries, admission.warnings)
        if request.resource is SERVICES and not request.subresource:
            obj = self._commits.services.assign(cast(Service, obj), current.object)
        return await self._store_change(request, admission, current, obj)

    async def _store_change(
        self, request: Request, admission: AdmissionRequest, current: KeyVersion, obj: Wire
    ) -> Answer:
        """Validate and store the object that replaces the current state. Returns the stored state.

        If the change removes the last finalizer of a deleted object, the object is deleted. Raises RevisionConflict
        if another write came first.
        """
        resource, subresource, old = request.resource, request.subresource, current.object
        await self._check(request, request.name, partial(validation.validate_update, resource, obj, old, subresource))
        if not subresource:
            admission.warnings += strategy.warnings(resource, obj, old)
        admission.object, admission.old = obj, old
        if subresource == "scale":  # validating plugins see the Scale, as its writer does
            admission.object = scale_of(resource, request.version, obj)
            admission.old = scale_of(resource, request.version, old)
        if resource.converts:
            obj, current = await self._stored_form(request, obj, current)
        await self._admission.validate(admission)
        if gone_when_written(resource, obj):
            version = await self._commits.remove(admission, current, obj)
        elif (value := encode(obj)) == current.value:
            await admission.release()
            version = current  # unchanged: no write, no event
        else:
            version = await self._commits.write(admission, current.key, obj, expected=current.revision, value=value)
        return Answer(version=version, warnings=admission.warnings)

    async def _check(
        self, request: Request, name: str, judge: Callable[[validation.Context], list[FieldError]]
    ) -> None:
        """Validate an object with `judge`. Raises Invalid if it returns errors. `name` is the object's name."""
        known: KnownValues = {}
        try:
            if request.is_large:
                errors = await self._run(request, self._validators.errors, request, known, judge)
            else:  # most validations need no background computation, and no coroutine
                errors = self._validators.errors(request, known, judge)
        except Lacking as lacking:
            validate = partial(self._validators.errors, request, known, judge)
            errors = await self._resolver.go_on(lacking, request.user.name, request.is_large, validate)
        if errors:
            raise Invalid(request.resource, name, errors)

    def _run(self, request: Request, step: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        """Run a step of a write where it belongs (event loop or worker thread). Returns its result."""
        return self._resolver.run(request.user.name, request.is_large, step, *arguments)

    def _found(self, request: Request) -> KeyVersion | None:
        return self._storage.cache.get(request.resource.key(request.namespace, request.name))

    async def _current(self, request: Request) -> KeyVersion | None:
        """Return the state that a write changes, in the version of the request, or None if the object does not exist."""
        found = self._found(request)
        if found is None or not request.resource.converts:
            return found
        return await self._conversions.state(request.resource, found)

    async def _changed(
        self, request: Request, tree: Tree, current: KeyVersion, entries: Entries | None, warnings: list[str]
    ) -> Wire:
        """Return the typed object made of a tree that replaces `current`."""
        changed = self._finish.changed
        if not request.resource.converts:
            return await self._run(request, changed, request, tree, current, entries, warnings)
        original = encode(tree)  # the step may run several times and changes its tree
        return await self._run(
            request, lambda: changed(request, msgspec.json.decode(original), current, entries, warnings)
        )

    async def _stored_form(self, request: Request, obj: Wire, current: KeyVersion) -> tuple[Wire, KeyVersion]:
        """Return the new object and its current state in the stored version.

        Raises RevisionConflict if the state has changed.
        """
        stored, found = await self._conversions.stored(request.resource, cast(CustomObject, obj)), self._found(request)
        if found is None or found.revision != current.revision:
            raise RevisionConflict(current.key, current.revision, 0 if found is None else found.revision)
        return stored, found

    async def _unfolded(self, request: Request, current: KeyVersion, original: bytes) -> tuple[Tree, list[str]]:
        """Return the patched tree and warnings. Small JSON patches that arrive together take turns."""
        steps = Steps(request.user.name) if request.options.patch_type == JSON_PATCH and not request.is_large else None
        if steps is None:
            return await self._run(request, self._patched, request, current, original)
        await steps.begin()
        try:
            return await self._run(request, self._patched, request, current, original)
        finally:
            steps.end()

    def _patched(self, request: Request, current: KeyVersion, original: bytes) -> tuple[Tree, list[str]]:
        """Apply a patch to the current object in the patch's version.

        `original` is the patch as JSON. Returns the tree in the stored version, and warnings. Raises TakesLong if a
        patch that seemed small is not.
        """
        resource, patch = request.resource, msgspec.json.decode(original)
        form = self._storage.form(resource, request.version or resource.stored)
        tree = self._storage.tree(form, current)
        effort = Effort() if request.is_large else Effort.quick()
        if request.options.patch_type == JSON_PATCH:
            tree = json_patch(tree, patch, effort)
            ORDINARY.walk(tree, ORDINARY.limits.values)  # the patch may have combined parts beyond the limits of a body
        elif request.options.patch_type == MERGE_PATCH:
            tree = merge_patch(tree, patch)
        else:
            tree = strategic_merge(resource.message(form.version), tree, patch, effort)
        return self._finish.read(request, tree, current)


def _is_large(request: Request, current: KeyVersion | None = None) -> bool:
    """Return whether a write takes long: a large body or object, or a CustomResourceDefinition with its patterns."""
    is_large = current is not None and len(current.value or b"") > LARGE
    return is_large or request.is_large or request.resource.type is CustomResourceDefinition


def _keep_identity(request: Request, metadata: Tree, current: KeyVersion) -> None:
    """Restore metadata that no update changes. Raises Conflict if the body has another resourceVersion."""
    expected = metadata.pop("resourceVersion", "")
    if expected and expected != str(current.revision):
        raise conflict(request.resource, request.name, MODIFIED)
    identity.keep(metadata, current.object.metadata)


def _check_mutated(request: Request, metadata: Tree, current: KeyVersion) -> None:
    """Raise if admission moved an object to another namespace or set its deletionTimestamp.

    Validation checks name and UID.
    """
    identity.place_in_namespace(request, metadata)
    deleted = metadata.get("deletionTimestamp")
    if deleted and current.object.metadata.deletionTimestamp is None:
        errors = [invalid("metadata.deletionTimestamp", deleted, "field is immutable")]
        raise Invalid(request.resource, request.name, errors)


def _applied(request: Request, current: KeyVersion | None, original: bytes) -> Applied:
    """Apply the body, decoded anew from `original`, to the current object. Returns the result."""
    return managers.apply(msgspec.structs.replace(request, body=msgspec.json.decode(original)), current)


def _asked(request: Request, operation: Operation, name: str, tree: Tree | None = None) -> AdmissionRequest:
    """Return the AdmissionRequest for a write of the request's resource."""
    return AdmissionRequest(
        request.user,
        operation,
        request.resource,
        request.namespace if request.resource.namespaced else "",
        name,
        request.subresource,
        request.version,
        tree,
        dry_run=request.options.dry_run,
        options=_options(request) if request.options is not DEFAULT_OPTIONS else {},
        verb=request.verb,
        awaited=request.awaited,
        is_large=request.is_large,
    )


def _options(request: Request) -> Tree:
    """Return the options of a write as webhooks see them."""
    options = request.options
    tree: Tree = {}
    if options.dry_run:
        tree["dryRun"] = ["All"]
    if options.field_manager:
        tree["fieldManager"] = options.field_manager
    return tree
