"""MutatingAdmissionPolicy: change objects before they are stored, by CEL expressions of cluster administrators.

Policies act before mutating webhooks: policies and bindings sorted by name, mutations in order, each on the result of
the previous one. Deletions and connections are never changed. `policy_mutations` evaluates the expressions.
"""

from __future__ import annotations

from functools import partial

from dray.api.custom import CustomObject
from dray.api.errors import ApiError, InternalError
from dray.api.needs import KnownValues
from dray.api.resources import RESOURCES
from dray.api.types.admissionregistration import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
from dray.api.wire import Tree
from dray.apiserver.admission import Admission, AdmissionRequest, MaybeAwaitable
from dray.apiserver.admission.bound_policies import BoundPolicy, bound, denied
from dray.apiserver.admission.conditions import ConditionsFailed
from dray.apiserver.admission.judges import EXEMPT, Configured, JudgingContext
from dray.apiserver.admission.mutating import act_all, change, changeable, finished, message, present
from dray.apiserver.admission.policy_mutations import MutatingPolicy, MutationFailed, Patch
from dray.apiserver.admission.policy_params import Params
from dray.apiserver.write.patches.effort import Effort
from dray.apiserver.write.patches.json_patch import json_patch
from dray.apiserver.write.patches.rejection import PatchRejected, TestFailed
from dray.apiserver.write.patches.typed import atomics, merged, problems, root
from dray.cel.admission import ReadVariable


class ActingPolicy(BoundPolicy[MutatingPolicy, MutatingAdmissionPolicyBinding]):
    """A mutating policy and its bindings."""

    def __init__(
        self,
        policy: MutatingAdmissionPolicy,
        bindings: list[MutatingAdmissionPolicyBinding],
        context: JudgingContext,
    ) -> None:
        super().__init__(MutatingPolicy(policy), bindings, context)
        self.is_asked_again = policy.spec.reinvocationPolicy == "IfNeeded"

    async def act(self, request: AdmissionRequest) -> bool | None:
        """Apply the policy through all its bindings.

        Returns whether the object changed, or None if the policy does not match. Raises the error that denies the
        request if parameters, a condition or a mutation fail, unless the policy ignores failures.
        """
        about = present(request)
        version = self.matcher.version(about, self.context.reader)
        if version is None:
            return None
        changed = False
        for use in self.uses(about):
            try:
                if use.fault:
                    raise MutationFailed(use.fault)
                changed |= await self._act_with(use.params, version, request)
            except (ConditionsFailed, MutationFailed) as error:
                if not self.policy.ignores_failures:
                    name = self.policy.name
                    named = f"policy '{name}' with binding '{use.binding}'" if use.binding else f'policy "{name}"'
                    raise denied(request, f"{named} denied request: {error}") from error
        return changed

    async def _act_with(self, params: Params, version: str, request: AdmissionRequest) -> bool:
        """Apply all mutations with one parameter object. Returns whether the object changed.

        Raises ConditionsFailed and MutationFailed.
        """
        policy, about, changed = self.policy, present(request), False
        if not await self.context.hold(policy.conditions, about, lambda: self._reading(about, version, params)):
            return False
        for number in range(len(policy.source.spec.mutations)):
            changed |= await self._mutate(number, params, version, request)
        return changed

    async def _mutate(self, number: int, params: Params, version: str, request: AdmissionRequest) -> bool:
        """Apply one mutation. Returns whether the object changed."""
        about, known, policy = present(request), KnownValues(), self.policy

        def patch() -> Patch:
            return policy.patch(number, self._reading(about, version, params), known)

        wanted = await self.context.resolver.run(request.user.name, False, patch)
        return await change(self.context, request, version, partial(self._changed, version, wanted))

    def _reading(self, about: AdmissionRequest, version: str, params: Params) -> ReadVariable:
        """Return the function that reads variables.

        Created for each attempt, because the object may have to be converted first.
        """
        return partial(self.context.view(about, version).read_with, params)

    def _changed(self, version: str, patch: Patch, about: AdmissionRequest, now: Tree, effort: Effort) -> Tree:
        """Return the object in the stored version after a patch; unpatched if a `test` operation fails.

        `now` is the object in `version`. Raises MutationFailed, or InternalError if the result is invalid.
        """
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
            return finished(about, version, changed, self.context.gates, strict=True)
        except ApiError as error:
            raise InternalError(f"Internal error occurred: {error}") from error


def _applied(about: AdmissionRequest, version: str, now: Tree, part: Tree) -> Tree:
    """Return the object with an apply configuration merged in.

    `now` is the object and `part` the configuration. Raises MutationFailed if the configuration does not fit the
    schema or sets an atomic list or map.
    """
    shape = root(message(about, version))
    for problem in problems(shape, part):
        raise MutationFailed(f"error applying patch: failed to convert patch object to typed object: {problem}")
    if whole := list(atomics(shape, part)):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise MutationFailed(f"error applying patch: invalid ApplyConfiguration: {text}")
    changed: Tree = merged(shape, now, part)
    return changed


class MutatingPolicies(Admission):
    """Applies all bound mutating policies."""

    name = "MutatingAdmissionPolicy"
    operations = ("CREATE", "UPDATE")
    configured_by = (MutatingAdmissionPolicyBinding,)
    types = (CustomObject, *(resource.type for resource in RESOURCES if resource.type not in EXEMPT))

    def __init__(self, context: JudgingContext) -> None:
        kinds = MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
        self._policies = Configured(context.reader, kinds, partial(bound, context, *kinds, ActingPolicy))

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Let the matching policies act.

        Returns the work as an awaitable, or None if no policy may match or the request has nothing to change.
        """
        about = self._policies.about(request)
        return act_all(about, request) if about and changeable(request) is not None else None

    async def reinvoke(self, request: AdmissionRequest) -> bool:
        """Apply the policies that want reinvocation after webhooks. Returns whether they changed the object."""
        again = [policy for policy in self._policies.about(request) if policy.is_asked_again]
        return any([await policy.act(request) for policy in again])
