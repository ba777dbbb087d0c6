"""What becomes of an object when a mutating policy acts: conditions, parameters, patches, and a policy that fails.

What a mutation makes is checked and defaulted like what a client writes. Left out: which policies act, and how often
(`mutating_policies`), and what their expressions come to (`policy_mutations`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dray.api.errors import ApiError, InternalError
from dray.api.gates import FeatureGates
from dray.api.needs import Known
from dray.api.types.admissionregistration import MutatingAdmissionPolicyBinding
from dray.api.wire import Tree
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.conditions import ConditionsFailed, held
from dray.apiserver.admission.matching import presented
from dray.apiserver.admission.mutating import finished, message, patched, put, seen
from dray.apiserver.admission.policy_bindings import Bound, matched
from dray.apiserver.admission.policy_mutations import MutatingPolicy, MutationFailed, Patch
from dray.apiserver.admission.policy_params import FindKind, Params, ParamsError, ParamSource
from dray.apiserver.admission.policy_view import PolicyView
from dray.apiserver.admission.webhooks import Unprocessable
from dray.apiserver.read.reader import Reader
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver
from dray.apiserver.write.patches.effort import Effort
from dray.apiserver.write.patches.json_patch import json_patch
from dray.apiserver.write.patches.rejection import PatchRejected, TestFailed
from dray.apiserver.write.patches.typed import atomics, merged, problems, root
from dray.cel.admission import Read

BoundPolicy = Bound[MutatingPolicy, MutatingAdmissionPolicyBinding]


class Acting:
    """Lets policies act on trees."""

    def __init__(
        self,
        reader: Reader,
        authorizer: Union,
        gates: FeatureGates,
        resolver: RequestResolver,
        find_kind: FindKind | None = None,
    ) -> None:
        self._reader = reader
        self._authorizer = authorizer
        self._gates = gates
        self._resolver = resolver
        self._find_kind = find_kind

    async def act(self, bound: BoundPolicy, request: AdmissionRequest, tree: Tree) -> bool:
        """Let one policy act, through all its bindings; whether it changed the object."""
        version = matched(bound.policy.spec.matchConstraints, seen(request, tree), self._reader)
        if version is None:
            return False
        changed = False
        for binding, params in self._bindings(bound, request, tree):
            try:
                changed |= await self._act_with(bound.policy, params, version, request, tree)
            except (ConditionsFailed, MutationFailed) as error:
                _fail(request, bound.policy, binding, str(error))
        return changed

    def _bindings(self, bound: BoundPolicy, request: AdmissionRequest, tree: Tree) -> Iterator[tuple[str, Params]]:
        """The bindings of a policy that a request is about, once for each of their parameters."""
        policy, kind = bound.policy, bound.policy.spec.paramKind
        try:
            source = ParamSource(kind, self._reader, self._find_kind) if kind is not None else None
        except ParamsError as error:
            return _fail(request, policy, "", f"failed to configure policy: {error}")
        for binding in bound.bindings:
            match, name = binding.spec.matchResources, binding.metadata.name
            if match is not None and matched(match, seen(request, tree), self._reader) is None:
                continue
            try:
                found = source.find(binding.spec.paramRef, request.namespace) if source is not None else [None]
            except ParamsError as error:
                _fail(request, policy, name, f"failed to configure binding: {error}")
                continue
            yield from ((name, params) for params in found)

    async def _act_with(
        self, policy: MutatingPolicy, params: Params, version: str, request: AdmissionRequest, tree: Tree
    ) -> bool:
        """Raises ConditionsFailed and MutationFailed."""
        changed, known = False, Known()
        reading = self._reading(seen(request, tree), version, params)
        run, user = self._resolver.run, request.user.name
        if not await run(user, False, lambda: held(policy.conditions, reading(), known)):
            return False
        for number in range(len(policy.spec.mutations)):
            changed |= await self._mutate(policy, number, params, version, request, tree)
        return changed

    async def _mutate(
        self, policy: MutatingPolicy, number: int, params: Params, version: str, request: AdmissionRequest, tree: Tree
    ) -> bool:
        about, known = seen(request, tree), Known()
        reading, run = self._reading(about, version, params), self._resolver.run
        patch = await run(request.user.name, False, lambda: policy.patch(number, reading(), known))
        changed = await patched(self._resolver, request, lambda effort: self._changed(about, version, patch, effort))
        return put(tree, changed)

    def _reading(self, about: AdmissionRequest, version: str, params: Params) -> Callable[[], Read]:
        """Makes what expressions read, again in each attempt, since the object may have to be converted first."""

        def reading() -> Read:
            view = PolicyView(about, version, self._reader, self._authorizer)
            return lambda name: params if name == "params" else view.read(name)

        return reading

    def _changed(self, about: AdmissionRequest, version: str, patch: Patch, effort: Effort) -> Tree:
        """The object with a patch, as it is stored. Raises MutationFailed."""
        assert about.object is not None
        now = presented(about, version, about.object)
        try:
            changed = (
                _applied(about, version, now, patch.applied)
                if patch.applied
                else json_patch(now, patch.operations, effort)
            )
        except TestFailed:
            changed = now
        except PatchRejected as error:
            raise MutationFailed(f"JSON Patch: {error.cause}") from error
        except ApiError as error:
            raise MutationFailed(f"JSON Patch: {error}") from error
        try:
            return finished(about, version, changed, self._gates, strict=True)
        except ApiError as error:
            raise InternalError(f"Internal error occurred: {error}") from error


def _applied(about: AdmissionRequest, version: str, now: Tree, part: Tree) -> Tree:
    shape = root(message(about, version))
    for problem in problems(shape, part):
        raise MutationFailed(f"error applying patch: failed to convert patch object to typed object: {problem}")
    if whole := list(atomics(shape, part)):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise MutationFailed(f"error applying patch: invalid ApplyConfiguration: {text}")
    changed: Tree = merged(shape, now, part)
    return changed


def _fail(request: AdmissionRequest, policy: MutatingPolicy, binding: str, why: str) -> None:
    """A policy that cannot act: the request fails, or goes on without it."""
    if policy.ignores_failures:
        return
    named = f"policy '{policy.name}' with binding '{binding}'" if binding else f'policy "{policy.name}"'
    text = f"{named} denied request: {why}"
    form = request.forbidden(text)
    raise Unprocessable(form.message, **form.details, causes=[{"message": text}])
