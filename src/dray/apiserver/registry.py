"""Writing objects: create, update and patch, from a private tree to a commit.

Every write takes the same steps: check the tree against the schema, convert it to the stored version, default it, let
admission change it, let the strategy of the resource say what the client may decide, make it a typed object, validate
it, let admission refuse it, commit. Nothing is copied: the tree belongs to the request, and what was read is immutable.
What is written most takes a shorter way (`made`, `alike`, `partial`). Left out: deletion (`deletion`) and what
subresources do besides replacing a part of their object (`subresources`).
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dray.api import conversion, decode, defaults, strategy, validation
from dray.api.errors import AlreadyExists, BadRequest, Invalid, already_exists, conflict, invalid, not_found
from dray.api.gates import FeatureGates
from dray.api.resources import BY_TYPE
from dray.api.types.scheduling import Workload
from dray.api.wire import Wire
from dray.apiserver import identity, managers, partial
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.alike import PODS, Alike, likeness
from dray.apiserver.commits import Commits
from dray.apiserver.deletion import gone_when_written
from dray.apiserver.made import Made
from dray.apiserver.managers import Entries
from dray.apiserver.patches import json_patch, merge_patch, strategic_merge
from dray.apiserver.request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Answer, Request
from dray.apiserver.scales import scale_of
from dray.apiserver.storage import Storage, encode
from dray.store import Conflict, Version

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS = 8  # at generated names and at patches that meet another writer; more would hide a livelock
CREATED_BY_UPDATE = frozenset({"leases.coordination.k8s.io", "serviceaccounts", "events", "events.events.k8s.io"})

_WORKLOADS = BY_TYPE[Workload]

Tree = dict[str, Any]


def _options(request: Request) -> Tree:
    """The options of a write as a webhook sees them."""
    options = request.options
    tree: Tree = {}
    if options.dry_run:
        tree["dryRun"] = ["All"]
    if options.field_manager:
        tree["fieldManager"] = options.field_manager
    return tree


def _complaint(expression: str) -> validation.Complaint | None:
    """What is wrong with a device selector. Imported late: most servers start without one to check."""
    from dray.cel.selector import check_selector

    refusal = check_selector(expression)
    return validation.Complaint(refusal.reason, refusal.detail) if refusal is not None else None


def _policy_expressions(params: bool, composed: bool) -> validation.PolicyCheck:
    """What is wrong with the expressions of a policy. Imported late for the same reason."""
    from dray.cel.admission import Compiler

    compiler = Compiler(params=params, composed=composed)

    def check(use: validation.ExpressionUse, expression: str, name: str) -> validation.Complaint | None:
        error = compiler.compile(use, expression, name).error
        if error is None:
            return None
        return validation.Complaint("Invalid" if error.kind == "RuleInvalid" else "InternalError", error.detail)

    return check


class Registry:
    """The writes of every resource."""

    def __init__(self, storage: Storage, commits: Commits, admission: Chain, gates: FeatureGates) -> None:
        self._storage = storage
        self._commits = commits
        self._admission = admission
        self._gates = gates
        self._made = Made()
        self._alike = Alike()
        self._contexts: dict[str, validation.Context] = {}

    async def create(self, request: Request) -> Answer:
        body = request.body
        if not isinstance(body, Wire):
            return await self._create_alike(request)
        obj = self._made.finished(request)
        if obj is not None:
            return await self._create_made(request, obj)
        request.body = msgspec.json.decode(encode(body))
        answer = await self._create_tree(request)
        self._made.learn(body, answer.object)
        return answer

    async def _create_alike(self, request: Request) -> Answer:
        """Write a new object that may be like one before it."""
        reads = self._admission.reads(request.resource.type, "CREATE") if request.resource is PODS else None
        like = likeness(request, tuple(map(self._storage.revision, reads))) if reads is not None else None
        pod = self._alike.finished(request, like)
        if pod is not None:
            try:
                return await self._create_made(request, pod)
            except AlreadyExists:
                if request.body["metadata"].get("name"):
                    raise  # else other names are tried on the long way
        answer = await self._create_tree(request)
        self._alike.learn(like, answer)
        return answer

    async def _create_made(self, request: Request, obj: Any) -> Answer:
        """Write a new object that no admission plugin changes any more."""
        resource, namespace, name = request.resource, request.namespace, obj.metadata.name
        admission = AdmissionRequest(
            request.user,
            "CREATE",
            resource,
            namespace,
            name,
            version=request.version,
            object=obj,
            options=_options(request),
            verb=request.verb,
        )
        await self._admission.admit(admission)
        if errors := validation.validate_create(resource, obj, self._context(request)):
            raise Invalid(resource, name, errors)
        await self._admission.validate(admission)
        try:
            version = await self._commits.write(admission, resource.key(namespace, name), obj, expected=0)
        except Conflict:
            raise already_exists(resource, name) from None
        return Answer(code=201, version=version, warnings=admission.warnings)

    async def _create_tree(self, request: Request) -> Answer:
        tree, warnings = self.read(request, request.body)
        metadata = identity.metadata_of(tree)
        identity.place(request, metadata)
        if metadata.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        generates = not metadata.get("name") and bool(metadata.get("generateName"))
        identity.begin(metadata)
        managers.track(request, None, tree)  # before admission: what that adds is nobody's
        for _ in range(_ATTEMPTS):
            try:
                return await self._create(request, tree, metadata, warnings)
            except Conflict:
                if not generates:
                    break
                metadata["name"] = identity.generated(metadata["generateName"])
        raise already_exists(request.resource, metadata["name"])

    async def update(self, request: Request) -> Answer:
        body, resource = request.body, request.resource
        conditional = isinstance(body, dict) and bool(identity.metadata_of(body).get("resourceVersion"))
        if not conditional and not strategy.allows_unconditional_update(resource, request.version or resource.stored):
            text = "must be specified for an update"
            raise Invalid(resource, request.name, [invalid("metadata.resourceVersion", 0, text)])
        original = b"" if conditional else encode(body)
        for attempt in range(1 if conditional else _ATTEMPTS):
            if attempt:
                body = msgspec.json.decode(original)
            current = self._current(request)
            if current is None and request.resource.qualified in CREATED_BY_UPDATE and not request.subresource:
                return await self.create(msgspec.structs.replace(request, body=body))
            if current is None:
                raise not_found(request.resource, request.name)
            tree, warnings = self.read(request, body, current)
            try:
                return await self.replace(request, current, tree, warnings)
            except Conflict:
                continue
        raise conflict(request.resource, request.name, MODIFIED)

    async def patch(self, request: Request) -> Answer:
        if request.options.patch_type == APPLY_PATCH:
            return await self._apply(request)
        original = b""
        for _ in range(_ATTEMPTS):
            current = self._current(request)
            if current is None:
                raise not_found(request.resource, request.name)
            try:
                if (obj := partial.patched(request, current, self._gates)) is not None:
                    return await self._replace_part(request, current, obj)
                original = original or encode(request.body)
                patched = self._patched(request, current, msgspec.json.decode(original))
                tree, warnings = self.read(request, patched, current)
                return await self.replace(request, current, tree, warnings)
            except Conflict:
                continue
        raise conflict(request.resource, request.name, MODIFIED)

    async def _replace_part(self, request: Request, current: Version, obj: Wire) -> Answer:
        """Write an object of which only a part that no admission plugin changes is new."""
        resource, old = request.resource, cast(Wire, current.object)
        if errors := validation.validate_update(resource, obj, old, request.subresource, self._context(request)):
            raise Invalid(resource, request.name, errors)
        admission = AdmissionRequest(
            request.user,
            "UPDATE",
            resource,
            request.namespace,
            request.name,
            request.subresource,
            request.version,
            None,
            obj,
            old,
            request.options.dry_run,
            verb=request.verb,
        )
        await self._admission.validate(admission)
        return await self._written(admission, current, obj)

    async def _apply(self, request: Request) -> Answer:
        original = encode(request.body)
        for _ in range(_ATTEMPTS):
            request.body = msgspec.json.decode(original)
            current = self._current(request)
            applied = managers.apply(request, current)
            tree, warnings = self.read(request, applied.tree, current)
            try:
                if current is not None:
                    return await self.replace(request, current, tree, warnings, applied.entries)
                if request.subresource:
                    raise not_found(request.resource, request.name)
                metadata = identity.metadata_of(tree)
                identity.place(request, metadata)
                identity.begin(metadata)
                metadata["managedFields"] = applied.entries
                return await self._create(request, tree, metadata, warnings)
            except Conflict:
                continue
        raise conflict(request.resource, request.name, MODIFIED)

    # The steps

    def read(self, request: Request, body: Any, current: Version | None = None) -> tuple[Tree, list[str]]:
        """A checked and defaulted tree of the stored version, and the warnings about what the body says."""
        resource = request.resource
        version = request.version or resource.stored
        complaints = decode.check(resource, version, body)
        if complaints and request.options.field_validation == "Strict":
            raise decode.strict_error(resource, version, complaints)
        old = cast(Wire, current.object) if current is not None else None
        tree = conversion.to_stored(resource, version, body, old, self._workload)
        defaults.apply_defaults(resource, tree, self._gates)
        return tree, complaints if request.options.field_validation == "Warn" else []

    def _workload(self, namespace: str, name: str) -> Workload | None:
        version = self._storage.cache.get(_WORKLOADS.key(namespace, name))
        return cast(Workload, version.object) if version is not None else None

    async def _create(self, request: Request, tree: Tree, metadata: Tree, warnings: list[str]) -> Answer:
        resource = request.resource
        name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
        admission = self._admission_request(request, "CREATE", tree)
        admission.warnings += warnings
        await self._admission.admit(admission)
        strategy.prepare_create(resource, tree, self._gates)
        obj = decode.to_object(conversion.home(resource), tree)
        if errors := validation.validate_create(resource, obj, self._context(request)):
            raise Invalid(resource, name, errors)
        admission.warnings += strategy.warnings(resource, obj)
        admission.object = obj
        await self._admission.validate(admission)
        key = resource.key(namespace, name)
        version = await self._commits.write(admission, key, obj, expected=0)
        return Answer(code=201, version=version, warnings=admission.warnings)

    async def replace(
        self, request: Request, current: Version, tree: Tree, warnings: list[str], entries: Entries | None = None
    ) -> Answer:
        """Write a tree in place of the current state; raises the store's Conflict when somebody else was faster."""
        resource, old = request.resource, cast(Any, current.object)
        metadata = identity.metadata_of(tree)
        identity.place(request, metadata)
        expected = metadata.pop("resourceVersion", "")
        if expected and expected != str(current.revision):
            raise conflict(resource, request.name, MODIFIED)
        identity.keep(metadata, old.metadata)
        admission = self._admission_request(request, "UPDATE", tree, old)
        admission.warnings += warnings
        await self._admission.admit(admission)
        strategy.prepare_update(resource, tree, old, request.subresource, self._gates)
        if entries is not None:
            metadata["managedFields"] = entries
        else:
            managers.track(request, current, tree)
        obj = decode.to_object(conversion.home(resource), tree)
        if errors := validation.validate_update(resource, obj, old, request.subresource, self._context(request)):
            raise Invalid(resource, request.name, errors)
        admission.warnings += strategy.warnings(resource, obj)
        admission.object = obj
        if request.subresource == "scale":  # whoever judges it sees no more than who writes it
            admission.object, admission.old = scale_of(obj), scale_of(old)
        await self._admission.validate(admission)
        return await self._written(admission, current, obj)

    async def _written(self, admission: AdmissionRequest, current: Version, obj: Wire) -> Answer:
        if gone_when_written(admission.resource, obj):
            version = await self._commits.remove(admission, current, obj)
        elif (value := encode(obj)) == current.value:
            await admission.release()
            version = current  # nothing has changed: no write, no event
        else:
            version = await self._commits.write(admission, current.key, obj, expected=current.revision, value=value)
        return Answer(version=version, warnings=admission.warnings)

    def _context(self, request: Request) -> validation.Context:
        version = request.version or request.resource.stored
        context = self._contexts.get(version)
        if context is None:
            context = validation.Context(self._gates, _complaint, version, _policy_expressions)
            self._contexts[version] = context
        return context

    def _current(self, request: Request) -> Version | None:
        return self._storage.cache.get(request.resource.key(request.namespace, request.name))

    def _patched(self, request: Request, current: Version, patch: Any) -> Tree:
        """What a patch makes of the current object, in the version that the patch is written in."""
        resource = request.resource
        form = self._storage.form(resource, request.version or resource.stored)
        tree = self._storage.tree(form, current)
        if request.options.patch_type == JSON_PATCH:
            return json_patch(tree, patch)
        if request.options.patch_type == MERGE_PATCH:
            return merge_patch(tree, patch)
        return strategic_merge(resource.message(form.version), tree, patch)

    def _admission_request(
        self, request: Request, operation: Any, tree: Tree, old: Wire | None = None
    ) -> AdmissionRequest:
        metadata = tree["metadata"]
        return AdmissionRequest(
            request.user,
            operation,
            request.resource,
            metadata.get("namespace") or "",
            metadata.get("name") or "",
            request.subresource,
            request.version,
            tree,
            None,
            old,
            request.options.dry_run,
            _options(request),
            verb=request.verb,
        )
