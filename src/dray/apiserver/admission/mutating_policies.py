"""MutatingAdmissionPolicy: what is about to be stored is changed as the cluster's administrators say in expressions.

A policy acts where a binding says so, from the next request on, before mutating webhooks are asked; policies by their
name, bindings by theirs, mutations in their order, each on what those before it made. One that asks for it
(`reinvocationPolicy: IfNeeded`) acts once more if another, or a webhook, changed the object after it. Whatever is about
expressions is imported when there is a binding. Left out: deletions and connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.custom import CustomObject
from dray.api.gates import FeatureGates
from dray.api.resources import BY_TYPE, RESOURCES
from dray.api.types.admissionregistration import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.api.wire import Tree
from dray.apiserver.admission import Admission, AdmissionRequest, Waiting
from dray.apiserver.admission.mutating import changeable
from dray.apiserver.read.reader import Reader, many
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver, resolver_of_its_own

if TYPE_CHECKING:
    from dray.apiserver.admission.policy_acting import Acting, BoundPolicy
    from dray.apiserver.admission.policy_bindings import BoundPolicies
    from dray.apiserver.admission.policy_mutations import MutatingPolicy
    from dray.apiserver.admission.policy_params import FindKind

EXEMPT = (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
_POLICIES, _BINDINGS = BY_TYPE[MutatingAdmissionPolicy], BY_TYPE[MutatingAdmissionPolicyBinding]


class MutatingPolicies(Admission):
    """Changes objects as the policies say that are bound."""

    name = "MutatingAdmissionPolicy"
    operations = ("CREATE", "UPDATE")
    configured_by = (MutatingAdmissionPolicyBinding,)
    types = (CustomObject, *(resource.type for resource in RESOURCES if resource.type not in EXEMPT))

    def __init__(
        self,
        reader: Reader,
        authorizer: Union,
        gates: FeatureGates,
        resolver: RequestResolver | None = None,
        find_kind: FindKind | None = None,
    ) -> None:
        self._reader = reader
        self._last_changes = reader.last_change(_BINDINGS), reader.last_change(_POLICIES)
        self._authorizer = authorizer
        self._gates = gates
        self._resolver = resolver or resolver_of_its_own()
        self._find_kind = find_kind
        self._seen = (-1, -1)
        self._bound: BoundPolicies[MutatingPolicy, MutatingAdmissionPolicyBinding] | None = None
        self._acting: Acting | None = None

    def admit(self, request: AdmissionRequest) -> Waiting:
        if not self._about(request):
            return None
        tree = changeable(request)
        return self._act_all(request, tree) if tree is not None else None

    async def reinvoke(self, request: AdmissionRequest, tree: Tree) -> bool:
        """Let policies act once more that want to after webhooks; whether they changed the object."""
        return await self._act_again(request, tree, {bound.policy.name for bound in self._about(request)})

    async def _act_all(self, request: AdmissionRequest, tree: Tree) -> None:
        acted: set[str] = set()
        again: set[str] = set()  # policies after which another changed something
        for bound in self._about(request):
            if await self._act(bound, request, tree):
                again |= acted
            acted.add(bound.policy.name)
        await self._act_again(request, tree, again)

    async def _act_again(self, request: AdmissionRequest, tree: Tree, names: set[str]) -> bool:
        changed = False
        for bound in self._about(request):
            if bound.policy.is_asked_again and bound.policy.name in names:
                changed |= await self._act(bound, request, tree)
        return changed

    async def _act(self, bound: BoundPolicy, request: AdmissionRequest, tree: Tree) -> bool:
        assert self._acting is not None
        return await self._acting.act(bound, request, tree)

    def _about(self, request: AdmissionRequest) -> tuple[BoundPolicy, ...]:
        bindings, policies = self._last_changes
        revisions = bindings.revision, policies.revision
        if revisions != self._seen:
            self._seen = revisions
            self._bound = self._compiled()
        if self._bound is None or request.concerns(*EXEMPT):
            return ()
        return self._bound.about(request)

    def _compiled(self) -> BoundPolicies[MutatingPolicy, MutatingAdmissionPolicyBinding] | None:
        bindings = sorted(many(self._reader, MutatingAdmissionPolicyBinding), key=lambda one: one.metadata.name)
        if not bindings:
            return None
        from dray.apiserver.admission.policy_acting import Acting
        from dray.apiserver.admission.policy_bindings import BoundPolicies
        from dray.apiserver.admission.policy_mutations import MutatingPolicy

        self._acting = Acting(self._reader, self._authorizer, self._gates, self._resolver, self._find_kind)
        policies = sorted(many(self._reader, MutatingAdmissionPolicy), key=lambda one: one.metadata.name)
        return BoundPolicies(policies, bindings, MutatingPolicy)
