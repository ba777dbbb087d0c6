"""The policies and webhooks of a cluster: all four kinds are found, narrowed down to a request and asked in the same way.

They hold from the next request on. Left out: what they say (`validating_policies`, `mutating_policies`, `webhooks`,
`mutating_webhooks`), and which requests match rules and selectors (`matching`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from dray.api.errors import ApiError
from dray.api.gates import FeatureGates
from dray.api.needs import KnownValues
from dray.api.resources import BY_TYPE, Resource
from dray.api.types.admissionregistration import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.api.wire import Wire
from dray.apiserver.admission import AdmissionRequest, Operation
from dray.apiserver.admission.conditions import Conditions, held
from dray.apiserver.admission.matching import Matcher
from dray.apiserver.admission.policy_params import FindKind
from dray.apiserver.admission.policy_view import PolicyView
from dray.apiserver.read.reader import Reader
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver, resolver_of_its_own
from dray.cel.admission import ReadVariable

EXEMPT = (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
"""Requests about policies are not judged by policies or webhooks, so that a policy can always be taken back."""

Sort = tuple[Resource, Operation, str, str]  # what rules distinguish requests by, but for the object's name


class Unprocessable(ApiError):
    """A denial with code 422; the general Invalid is about fields that the server knows."""

    code, reason = 422, "Invalid"


class JudgingContext(NamedTuple):
    """What policies and webhooks need of the server."""

    reader: Reader
    authorizer: Union
    resolver: RequestResolver
    gates: FeatureGates = FeatureGates()
    find_kind: FindKind | None = None

    @classmethod
    def alone(cls, reader: Reader, authorizer: Union) -> JudgingContext:
        """For plugins that are used without a server, as tests do."""
        return cls(reader, authorizer, resolver_of_its_own())

    def view(self, request: AdmissionRequest, version: str) -> PolicyView:
        return PolicyView(request, version, self.reader, self.authorizer)

    async def hold(self, conditions: Conditions, request: AdmissionRequest, read: Callable[[], ReadVariable]) -> bool:
        """Whether conditions hold. `read` is called for each attempt. Raises ConditionsFailed."""
        known = KnownValues()
        return await self.resolver.run(request.user.name, False, lambda: held(conditions, read(), known))


class Judge(Protocol):
    """A policy or a webhook, ready to be asked."""

    @property
    def matcher(self) -> Matcher: ...


J = TypeVar("J", bound=Judge)


class Configured(Generic[J]):
    """The judges that objects of some kinds describe, in their order; made again when one of those objects changes."""

    def __init__(
        self,
        reader: Reader,
        kinds: tuple[type[Wire], ...],
        make: Callable[[], Iterable[J]],
        exempt: tuple[type[Wire], ...] = EXEMPT,
    ) -> None:
        self._last_change = reader.last_change(*(BY_TYPE[kind] for kind in kinds))
        self._make = make
        self._exempt = exempt
        self._seen = -1
        self._judges: tuple[J, ...] = ()
        self._by_sort: dict[Sort, tuple[J, ...]] = {}

    def about(self, request: AdmissionRequest) -> tuple[J, ...]:
        """The judges that may be about a request. Most are about few sorts of requests, so the choice is remembered."""
        if (seen := self._last_change.revision) != self._seen:
            self._seen, self._judges = seen, tuple(self._make())
            self._by_sort.clear()
        if not self._judges or request.concerns(*self._exempt):
            return ()
        sort = request.resource, request.operation, request.subresource, request.version
        found = self._by_sort.get(sort)
        if found is None:
            found = self._by_sort[sort] = tuple(one for one in self._judges if one.matcher.may_concern(request))
        return found
