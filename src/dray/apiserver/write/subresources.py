"""Subresources that do more than replace a part of their object: binding, eviction, scale, token.

`approval`, `status`, `finalize`, `ephemeralcontainers` and `resize` are plain updates in the registry; the strategy
decides which part may change. Streams to pods and nodes (exec, attach, port-forward, proxy, log) are not handled
here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.errors import BadRequest, Conflict, Invalid, NotImplementedYet, conflict, not_found, required, unsupported
from dray.api.resources import BY_TYPE, Resource
from dray.api.types import authentication, core, policy
from dray.api.types.autoscaling import Scale
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.custom.conversions import Conversions
from dray.apiserver.read.storage import Storage
from dray.apiserver.request import JSON_PATCH, Answer, Request, RequestOptions
from dray.apiserver.wire.paths import WrongMethod
from dray.apiserver.write.commits import Commits
from dray.apiserver.write.deletion import Deletion
from dray.apiserver.write.evictions import Budgets
from dray.apiserver.write.identity import now
from dray.apiserver.write.patches import json_patch, merge_patch
from dray.apiserver.write.registry import Registry
from dray.apiserver.write.scales import check_replicas, read_scale, scale_of, scale_patch
from dray.background.thread import in_thread
from dray.store import KeyVersion, RevisionConflict

PLAIN = ("approval", "status", "finalize", "ephemeralcontainers", "resize")
PODS = BY_TYPE[core.Pod]
_BINDINGS = BY_TYPE[core.Binding]
_ATTEMPTS = 8
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

T = TypeVar("T", core.Binding, policy.Eviction, authentication.TokenRequest, Scale)
SubresourceHandler = Callable[[Request], Awaitable[Answer]]
IssueToken = Callable[[str, str, dict[str, Any]], dict[str, Any]]


class Subresources:
    """Executes requests for subresources, such as pods/binding or deployments/scale."""

    def __init__(
        self,
        storage: Storage,
        commits: Commits,
        admission: Chain,
        registry: Registry,
        deletion: Deletion,
        issue_token: IssueToken | None,
        conversions: Conversions,
    ) -> None:
        self._storage = storage
        self._commits = commits
        self._admission = admission
        self._registry = registry
        self._deletion = deletion
        self._issue_token = issue_token
        self._conversions = conversions
        self._budgets = Budgets(storage)
        self._handlers: dict[str, SubresourceHandler] = {
            "binding": self.bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._token,
        }

    def handle(self, request: Request) -> Awaitable[Answer]:
        """Execute a request for a subresource.

        Returns its Answer. Raises NotImplementedYet for an unknown subresource.
        """
        name = request.subresource
        if name in PLAIN:
            return self._part(request)
        handler = self._handlers.get(name)
        if handler is None:
            raise NotImplementedYet(f"{request.resource.plural}/{name} is not implemented")
        return handler(request)

    def _part(self, request: Request) -> Awaitable[Answer]:
        """Read, update or patch a plain subresource. Returns the Answer. Raises WrongMethod for other verbs."""
        if request.verb == "get":
            return self._get(request)
        if request.verb == "update":
            return self._registry.update(request)
        if request.verb == "patch":
            return self._registry.patch(request)
        raise WrongMethod

    async def _get(self, request: Request) -> Answer:
        return Answer(version=self._found(request))

    def _found(self, request: Request) -> KeyVersion:
        return self._state(request.resource, request.namespace, request.name)

    def _state(self, resource: Resource, namespace: str, name: str) -> KeyVersion:
        """Return the state of an object. Raises NotFound if it does not exist."""
        version = self._storage.cache.get(resource.key(namespace, name))
        if version is None:
            raise not_found(resource, name)
        return version

    # pods/binding and bindings

    async def bind(self, request: Request) -> Answer:
        """Assign a pod to a node. Returns a Status.

        Raises NotFound if the pod does not exist. Raises Conflict if it is already assigned, being deleted, gated or
        has another UID, or after too many attempts.
        """
        body = request.body
        binding = body if isinstance(body, core.Binding) else _convert(body, core.Binding)
        name = request.name or binding.metadata.name
        _check_target(binding, name)
        for _ in range(_ATTEMPTS):
            current = self._state(PODS, request.namespace, name)
            try:
                return await self._bind(request, current, binding)
            except RevisionConflict:
                continue
        raise _cannot_bind(name, "too many others write to it at the same time")

    async def _bind(self, request: Request, current: KeyVersion, binding: core.Binding) -> Answer:
        """Make one attempt to bind a pod. Returns a Status. Raises RevisionConflict if another write came first."""
        pod: core.Pod = current.object
        _check_binding(pod, binding)
        placed = _placed(binding, pod.metadata.namespace, pod.metadata.name)
        admission = _posted(request, placed)
        binding = await self._admit(admission, placed)
        _check_target(binding, pod.metadata.name)
        await self._commits.write(admission, current.key, _bound(pod, binding), expected=current.revision)
        return Answer(code=201, tree=dict(_SUCCESS), warnings=admission.warnings)

    # pods/eviction

    async def _evict(self, request: Request) -> Answer:
        """Delete a pod if its PodDisruptionBudget allows an eviction (`evictions`). Returns a Status.

        Admission sees the eviction, not the resulting deletion. Raises TooManyRequests if the budget does not allow
        it.
        """
        body = request.body if request.body is not None else {}
        eviction = _convert(body, policy.Eviction)
        if eviction.metadata.name not in ("", request.name):
            raise BadRequest(f"name in URL does not match name in Eviction object: expected {request.name}")
        options = delete_options(request.options, body.get("deleteOptions"))
        request = replace(request, options=options)
        placed = _placed(eviction, request.namespace, request.name)
        admission = _posted(request, placed)
        await self._admit(admission, placed)
        await admission.release()
        if admission.tree is not None:
            request = replace(request, options=delete_options(options, admission.tree.get("deleteOptions")))
        await self._budgets.grant(self._found(request), request.options.dry_run, request.awaited)
        await self._deletion.delete(replace(request, verb="delete", subresource="", body=None), is_admitted=True)
        return Answer(code=201, tree=dict(_SUCCESS), warnings=admission.warnings)

    async def _admit(self, admission: AdmissionRequest, obj: T) -> T:
        """Run admission on a posted object. Returns the object as changed by admission.

        Raises an ApiError if admission denies it or changes its name.
        """
        await self._admission.admit(admission)
        if admission.tree is not None:
            changed, kind = _convert(admission.tree, type(obj)), type(obj).__name__
            if (changed.metadata.name, changed.metadata.namespace) != (obj.metadata.name, obj.metadata.namespace):
                raise BadRequest(f"name in URL does not match name in {kind} object: expected {obj.metadata.name}")
            admission.object = obj = changed
        await self._admission.validate(admission)
        return obj

    # deployments/scale, replicasets/scale and replicationcontrollers/scale

    async def _scale(self, request: Request) -> Answer:
        """Read, update or patch the Scale of an object.

        Returns the Scale. A write patches the replicas of the object. Raises a Conflict error if the body has another
        UID or resourceVersion than the object.
        """
        state = self._found(request)
        if request.resource.converts:
            state = await self._conversions.state(request.resource, state)
        current = scale_of(request.resource, request.version, state.object)
        tree = msgspec.to_builtins(current)
        if request.verb == "get":
            check_replicas(request.resource, request.version, state.object)
            return Answer(tree=tree)
        body = request.body
        if request.verb == "patch":
            apply = json_patch if request.options.patch_type == JSON_PATCH else merge_patch
            body = await in_thread(request.user.name, apply, tree, body)
        scale, warnings = await self._admit_scale(request, read_scale(body, request.name), current)
        uid = current.metadata.uid
        if scale.metadata.uid not in ("", uid):
            text = f"Precondition failed: UID in precondition: {scale.metadata.uid}, UID in object meta: {uid}"
            raise conflict(request.resource, request.name, text)
        version = scale.metadata.resourceVersion if request.verb != "patch" or _names_version(request.body) else ""
        metadata = {"uid": scale.metadata.uid or None, "resourceVersion": version or None}
        patch = {"metadata": metadata, **scale_patch(request.resource, request.version, scale.spec.replicas)}
        written = await self._registry.patch(
            replace(request, verb="patch", version="", body=patch, options=_merge(request.options))
        )
        state = cast(KeyVersion, written.version)
        if request.resource.converts:
            state = await self._conversions.state(request.resource, state)
        scaled = scale_of(request.resource, request.version, state.object)
        return Answer(tree=msgspec.to_builtins(scaled), warnings=[*warnings, *written.warnings])

    async def _admit_scale(self, request: Request, scale: Scale, current: Scale) -> tuple[Scale, list[str]]:
        """Run mutating admission on a Scale.

        Returns the changed Scale and warnings. Validating admission runs when it is written.
        """
        metadata = current.metadata
        admission = AdmissionRequest(
            request.user,
            "UPDATE",
            request.resource,
            metadata.namespace,
            request.name,
            request.subresource,
            request.version,
            object=_placed(scale, metadata.namespace, request.name),
            old=current,
            dry_run=request.options.dry_run,
        )
        await self._admission.admit(admission)
        await admission.release()
        if admission.tree is not None:
            scale = read_scale(admission.tree, request.name)
        return scale, admission.warnings

    # serviceaccounts/token

    async def _token(self, request: Request) -> Answer:
        """Return the answer to a TokenRequest with a new service account token.

        Raises NotImplementedYet without an issuer.
        """
        if self._issue_token is None:
            raise NotImplementedYet("this server issues no service account tokens")
        body = request.body if isinstance(request.body, dict) else {}
        wanted = _placed(_convert(body, authentication.TokenRequest), request.namespace, request.name)
        admission = _posted(request, wanted)
        await self._admit(admission, wanted)
        await admission.release()
        tree = self._issue_token(request.namespace, request.name, admission.tree or body)
        return Answer(code=201, tree=tree, warnings=admission.warnings)


def _names_version(patch: Any) -> bool:
    """Return whether a patch contains a resourceVersion."""
    if isinstance(patch, list):
        return any(isinstance(step, dict) and step.get("path") == "/metadata/resourceVersion" for step in patch)
    metadata = patch.get("metadata") if isinstance(patch, dict) else None
    return isinstance(metadata, dict) and "resourceVersion" in metadata


def _posted(request: Request, obj: T) -> AdmissionRequest:
    """Return the AdmissionRequest for the creation of an object that is not stored."""
    metadata = obj.metadata
    return AdmissionRequest(
        request.user,
        "CREATE",
        request.resource,
        metadata.namespace,
        metadata.name,
        request.subresource,
        object=obj,
        dry_run=request.options.dry_run,
        awaited=request.awaited,
    )


def _placed(obj: T, namespace: str, name: str) -> T:
    """Return a posted object with the name and namespace of its request."""
    metadata = obj.metadata
    if metadata.namespace == namespace and metadata.name == name:
        return obj
    return replace(obj, metadata=replace(metadata, namespace=namespace, name=name))


def delete_options(options: RequestOptions, body: Any) -> RequestOptions:
    """Return the options overridden by a DeleteOptions object; unchanged if `body` is empty.

    Raises BadRequest if the object is malformed or has both orphanDependents and propagationPolicy.
    """
    if not body:
        return options
    if not isinstance(body, dict):
        raise BadRequest("DeleteOptions: expected an object")
    conditions = body.get("preconditions") or {}
    policy, dry_run = body.get("propagationPolicy"), body.get("dryRun")
    if body.get("orphanDependents") is not None:
        if policy:
            raise BadRequest("orphanDependents and deletionPropagation cannot be both set")
        policy = "Orphan" if body["orphanDependents"] else "Background"
    grace = body.get("gracePeriodSeconds")
    _check_types(policy, grace, conditions, dry_run)
    return replace(
        options,
        grace_period_seconds=grace if grace is not None else options.grace_period_seconds,
        propagation_policy=policy or options.propagation_policy,
        precondition_uid=conditions.get("uid") or "",
        precondition_resource_version=conditions.get("resourceVersion") or "",
        dry_run=bool(dry_run) or options.dry_run,
    )


def _check_types(policy: Any, grace: Any, conditions: Any, dry_run: Any) -> None:
    """Raise BadRequest if a field of DeleteOptions has the wrong type."""
    if policy is not None and not isinstance(policy, str):
        raise BadRequest("DeleteOptions: propagationPolicy: expected a string")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest("DeleteOptions: gracePeriodSeconds: expected an integer")
    if not isinstance(conditions, dict) or not all(isinstance(v, str | None) for v in conditions.values()):
        raise BadRequest("DeleteOptions: preconditions: expected uid and resourceVersion as strings")
    if dry_run not in (None, [], ["All"]):
        raise BadRequest('DeleteOptions: dryRun: expected ["All"]')


def _convert(body: Any, type_: type[T]) -> T:
    """Return a body as a typed object. Raises BadRequest if it does not fit the type."""
    kind = type_.__name__
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        raise BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error


def _cannot_bind(name: str, why: str) -> Conflict:
    """Return the Conflict for a pod that cannot be bound."""
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {why}', name=name, kind="pods/binding")


def _check_target(binding: core.Binding, name: str) -> None:
    """Raise Invalid unless a binding names a node."""
    if binding.target.kind not in ("", "Node"):
        raise Invalid(_BINDINGS, name, [unsupported("target.kind", binding.target.kind, ("Node", "<empty>"))])
    if not binding.target.name:
        raise Invalid(_BINDINGS, name, [required("target.name")])


def _check_binding(pod: core.Pod, binding: core.Binding) -> None:
    """Raise Conflict if a pod has another UID, a node, scheduling gates, or is being deleted."""
    name, uid = pod.metadata.name, binding.metadata.uid
    if uid and uid != pod.metadata.uid:
        raise _cannot_bind(
            name,
            f"the UID in the precondition ({uid}) does not match the UID in record ({pod.metadata.uid}). "
            "The object might have been deleted and then recreated",
        )
    if pod.metadata.deletionTimestamp is not None:
        raise _cannot_bind(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.nodeName:
        raise _cannot_bind(name, f'pod {name} is already assigned to node "{pod.spec.nodeName}"')
    if pod.spec.schedulingGates:
        raise _cannot_bind(name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound(pod: core.Pod, binding: core.Binding) -> core.Pod:
    """Return the pod with its node, condition PodScheduled and the annotations of the binding."""
    scheduled = core.PodCondition(type="PodScheduled", status="True", lastTransitionTime=now())
    conditions = tuple(c for c in pod.status.conditions if c.type != "PodScheduled")
    annotations = {**pod.metadata.annotations, **binding.metadata.annotations}
    return replace(
        pod,
        metadata=replace(pod.metadata, resourceVersion="", annotations=annotations),
        spec=replace(pod.spec, nodeName=binding.target.name),
        status=replace(pod.status, conditions=(*conditions, scheduled), nominatedNodeName=""),
    )


def _merge(options: RequestOptions) -> RequestOptions:
    """Return the options for the merge patch that scales an object."""
    return RequestOptions(dry_run=options.dry_run, field_manager=options.field_manager)
