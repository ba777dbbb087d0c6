"""What subresources do that is more than replacing a part of their object: binding, eviction, scale, token, log.

`status`, `finalize`, `ephemeralcontainers` and `resize` are plain updates, whose strategy says which part may change;
the registry does them. exec, attach, port-forward and proxy need a way to a node that does not exist: they say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.errors import BadRequest, Conflict, Invalid, NotImplementedYet, not_found, required, unsupported
from dray.api.resources import BY_TYPE
from dray.api.selectors import spelled_out
from dray.api.types import core, policy
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.commits import Commits
from dray.apiserver.deletion import Deletion
from dray.apiserver.identity import now
from dray.apiserver.patches import json_patch, merge_patch
from dray.apiserver.paths import WrongMethod
from dray.apiserver.registry import Registry
from dray.apiserver.request import JSON_PATCH, Answer, Options, Request
from dray.apiserver.storage import Storage
from dray.store import Conflict as StoreConflict
from dray.store import Version

PLAIN = ("status", "finalize", "ephemeralcontainers", "resize")
PODS = BY_TYPE[core.Pod]
_BINDINGS = BY_TYPE[core.Binding]
_SCALE = "autoscaling/v1"
_ATTEMPTS = 8
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

T = TypeVar("T", core.Binding, policy.Eviction)
Handler = Callable[[Request], Awaitable[Answer]]
IssueToken = Callable[[str, str, dict[str, Any]], dict[str, Any]]


class Subresources:
    """The handlers of subresources, found by their name."""

    def __init__(
        self,
        storage: Storage,
        commits: Commits,
        admission: Chain,
        registry: Registry,
        deletion: Deletion,
        issue_token: IssueToken | None,
    ) -> None:
        self._storage = storage
        self._commits = commits
        self._admission = admission
        self._registry = registry
        self._deletion = deletion
        self._issue_token = issue_token
        self._handlers: dict[str, Handler] = {
            "binding": self.bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._token,
        }

    async def handle(self, request: Request) -> Answer:
        name = request.subresource
        if name in PLAIN:
            return await self._part(request)
        handler = self._handlers.get(name)
        if handler is None:
            raise NotImplementedYet(
                f"{request.resource.plural}/{name} is not implemented: this server has no connection to nodes"
            )
        return await handler(request)

    async def _part(self, request: Request) -> Answer:
        if request.verb == "get":
            return Answer(version=self._found(request))
        if request.verb == "update":
            return await self._registry.update(request)
        if request.verb == "patch":
            return await self._registry.patch(request)
        raise WrongMethod

    def _found(self, request: Request) -> Version:
        version = self._storage.cache.get(request.resource.key(request.namespace, request.name))
        if version is None:
            raise not_found(request.resource, request.name)
        return version

    # pods/binding and bindings

    async def bind(self, request: Request) -> Answer:
        """Assign a pod to a node, once."""
        binding = _convert(request.body, core.Binding)
        name = request.name or binding.metadata.name
        if binding.target.kind not in ("", "Node"):
            raise Invalid(_BINDINGS, name, [unsupported("target.kind", binding.target.kind, ("Node", "<empty>"))])
        if not binding.target.name:
            raise Invalid(_BINDINGS, name, [required("target.name")])
        for _ in range(_ATTEMPTS):
            current = self._found(replace(request, resource=PODS, name=name))
            try:
                await self._bind(request, current, binding)
            except StoreConflict:
                continue
            return Answer(code=201, tree=dict(_SUCCESS))
        raise _cannot_bind(name, "too many others write to it at the same time")

    async def _bind(self, request: Request, current: Version, binding: core.Binding) -> None:
        pod = cast(core.Pod, current.object)
        _check_binding(pod, binding)
        admission = AdmissionRequest(
            request.user,
            "CREATE",
            PODS,
            pod.metadata.namespace,
            pod.metadata.name,
            "binding",
            tree=request.body,
            old=pod,
            dry_run=request.options.dry_run,
        )
        await self._admission.validate(admission)
        await self._commits.write(admission, current.key, _bound(pod, binding), expected=current.revision)

    # pods/eviction

    async def _evict(self, request: Request) -> Answer:
        """Delete a pod on behalf of somebody who would rather not disturb; nothing here says that it disturbs."""
        body = request.body if request.body is not None else {}
        name = _convert(body, policy.Eviction).metadata.name or request.name
        if name != request.name:
            raise BadRequest(f"name in URL does not match name in Eviction object: expected {request.name}")
        options = delete_options(request.options, body.get("deleteOptions"))
        await self._deletion.delete(replace(request, verb="delete", subresource="", body=None, options=options))
        return Answer(code=201, tree=dict(_SUCCESS))

    # deployments/scale, replicasets/scale and replicationcontrollers/scale

    async def _scale(self, request: Request) -> Answer:
        current = self._found(request)
        tree = _scale_of(current)
        if request.verb == "get":
            return Answer(tree=tree)
        body = request.body
        if request.verb == "patch":
            body = json_patch(tree, body) if request.options.patch_type == JSON_PATCH else merge_patch(tree, body)
        scale = _read_scale(request, body)
        metadata = {"resourceVersion": scale["metadata"].get("resourceVersion") or None}
        patch = {"metadata": metadata, "spec": {"replicas": scale["spec"].get("replicas", 0)}}
        written = await self._registry.patch(
            replace(request, verb="patch", subresource="", version="", body=patch, options=_merge(request.options))
        )
        return Answer(tree=_scale_of(cast(Version, written.version)), warnings=written.warnings)

    # serviceaccounts/token

    async def _token(self, request: Request) -> Answer:
        if self._issue_token is None:
            raise NotImplementedYet("this server issues no service account tokens")
        body = request.body if isinstance(request.body, dict) else {}
        admission = AdmissionRequest(
            request.user, "CREATE", request.resource, request.namespace, request.name, "token", tree=body
        )
        await self._admission.validate(admission)
        await admission.release()
        return Answer(code=201, tree=self._issue_token(request.namespace, request.name, body))


def delete_options(options: Options, body: Any) -> Options:
    """Options with what a DeleteOptions object says on top."""
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
    if policy is not None and not isinstance(policy, str):
        raise BadRequest("DeleteOptions: propagationPolicy: expected a string")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest("DeleteOptions: gracePeriodSeconds: expected an integer")
    if not isinstance(conditions, dict) or not all(isinstance(v, str | None) for v in conditions.values()):
        raise BadRequest("DeleteOptions: preconditions: expected uid and resourceVersion as strings")
    if dry_run not in (None, [], ["All"]):
        raise BadRequest('DeleteOptions: dryRun: expected ["All"]')


def _convert(body: Any, type_: type[T]) -> T:
    kind = type_.__name__
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        raise BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error


def _cannot_bind(name: str, why: str) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {why}', name=name, kind="pods/binding")


def _check_binding(pod: core.Pod, binding: core.Binding) -> None:
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
    scheduled = core.PodCondition(type="PodScheduled", status="True", lastTransitionTime=now())
    conditions = tuple(c for c in pod.status.conditions if c.type != "PodScheduled")
    annotations = {**pod.metadata.annotations, **binding.metadata.annotations}
    return replace(
        pod,
        metadata=replace(pod.metadata, resourceVersion="", annotations=annotations),
        spec=replace(pod.spec, nodeName=binding.target.name),
        status=replace(pod.status, conditions=(*conditions, scheduled)),
    )


def _merge(options: Options) -> Options:
    return Options(dry_run=options.dry_run, field_manager=options.field_manager)


def _scale_of(version: Version) -> dict[str, Any]:
    """The Scale that an object with replicas stands for."""
    obj = cast(Any, version.object)
    metadata = obj.metadata
    kept = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    kept |= {"resourceVersion": metadata.resourceVersion, "creationTimestamp": metadata.creationTimestamp}
    selector = spelled_out(obj.spec.selector)
    status: dict[str, Any] = {"replicas": obj.status.replicas}
    if selector is not None:
        status["selector"] = _selector_text(selector)
    return {
        "kind": "Scale",
        "apiVersion": _SCALE,
        "metadata": kept,
        "spec": {"replicas": 1 if obj.spec.replicas is None else obj.spec.replicas},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    words = {"In": "in", "NotIn": "notin"}
    parts = [f"{key}={value}" for key, value in sorted(selector.matchLabels.items())]
    for e in selector.matchExpressions:
        if e.operator in words:
            parts.append(f"{e.key} {words[e.operator]} ({','.join(sorted(e.values))})")
        else:
            parts.append(e.key if e.operator == "Exists" else f"!{e.key}")
    return ",".join(parts)


def _read_scale(request: Request, body: Any) -> dict[str, Any]:
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise BadRequest("the object provided is unrecognized (must be of type Scale)")
    scale = {"metadata": body.get("metadata") or {}, "spec": body.get("spec") or {}}
    replicas = scale["spec"].get("replicas", 0) if isinstance(scale["spec"], dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not isinstance(scale["metadata"], dict):
        raise BadRequest('Scale in version "v1" cannot be handled as a Scale: spec.replicas: expected an integer')
    named = scale["metadata"].get("name") or request.name
    if named != request.name:
        raise BadRequest(f"the name of the object ({named}) does not match the name on the URL ({request.name})")
    return scale
