"""Which policies a request concerns, by which bindings: what validating and mutating policies have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from dray.api.resources import Resource
from dray.api.types.admissionregistration import MatchResources, ParamKind, ParamRef
from dray.api.types.meta import ObjectMeta
from dray.apiserver.admission import AdmissionRequest, Operation
from dray.apiserver.admission.matching import matched_version, rule_matches, selected
from dray.apiserver.read.reader import Reader

Sort = tuple[Resource, Operation, str, str]  # what rules distinguish requests by, but for the object's name


class PolicySpec(Protocol):
    @property
    def matchConstraints(self) -> MatchResources | None: ...
    @property
    def paramKind(self) -> ParamKind | None: ...


class CompiledPolicy(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> PolicySpec: ...


class BindingSpec(Protocol):
    @property
    def policyName(self) -> str: ...
    @property
    def paramRef(self) -> ParamRef | None: ...
    @property
    def matchResources(self) -> MatchResources | None: ...


class PolicyBinding(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def spec(self) -> BindingSpec: ...


class PolicySource(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


S = TypeVar("S", bound=PolicySource)
P = TypeVar("P", bound=CompiledPolicy)
B = TypeVar("B", bound=PolicyBinding)


class Bound(NamedTuple, Generic[P, B]):
    """A policy and what binds it."""

    policy: P
    bindings: tuple[B, ...]


class BoundPolicies(Generic[P, B]):
    """The policies of a cluster that are bound, at some time."""

    def __init__(self, policies: Iterable[S], bindings: Iterable[B], compile_: Callable[[S], P]) -> None:
        by_policy: dict[str, list[B]] = {}
        for binding in bindings:
            by_policy.setdefault(binding.spec.policyName, []).append(binding)
        self._bound = [
            Bound(compile_(policy), tuple(by_policy[policy.metadata.name]))
            for policy in policies
            if policy.metadata.name in by_policy
        ]
        self._concerned: dict[Sort, tuple[Bound[P, B], ...]] = {}

    def about(self, request: AdmissionRequest) -> tuple[Bound[P, B], ...]:
        """The policies that may be about a request; most are about few of all sorts, which are remembered."""
        sort = request.resource, request.operation, request.subresource, request.version
        found = self._concerned.get(sort)
        if found is None:
            found = self._concerned[sort] = tuple(bound for bound in self._bound if _may_concern(bound, request))
        return found


def _may_concern(bound: Bound[P, B], request: AdmissionRequest) -> bool:
    match = bound.policy.spec.matchConstraints
    rules = match.resourceRules if match is not None else ()
    return any(rule_matches(rule, request, version) for version in request.resource.versions for rule in rules)


def matched(match: MatchResources | None, request: AdmissionRequest, reader: Reader) -> str | None:
    """The version in which a policy or binding sees a request, if it is about it."""
    if match is None or not selected(match, request, reader):
        return None
    if matched_version(match.excludeResourceRules, match.matchPolicy, request) is not None:
        return None
    if not match.resourceRules:
        return request.version or request.resource.stored
    return matched_version(match.resourceRules, match.matchPolicy, request)
