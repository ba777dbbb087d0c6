"""Find the admission policies and webhooks for a request, in the same way for all four kinds.

Changes apply from the next request on. Evaluation is in `validating_policies`, `mutating_policies`, `webhooks` and
`mutating_webhooks`; `matching` decides which requests match rules and selectors.
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
"""Requests for these kinds bypass policies and webhooks, so that a policy can always be removed."""

Sort = tuple[Resource, Operation, str, str]  # the attributes that rules match, except the object's name


class Unprocessable(ApiError):
    """A denial with code 422. Unlike Invalid, it names no field."""

    code, reason = 422, "Invalid"


class JudgingContext(NamedTuple):
    """The parts of the server that policies and webhooks need."""

    reader: Reader
    authorizer: Union
    resolver: RequestResolver
    gates: FeatureGates = FeatureGates()
    find_kind: FindKind | None = None

    @classmethod
    def alone(cls, reader: Reader, authorizer: Union) -> JudgingContext:
        """Return a context for plugins that are used without a server, as in tests."""
        return cls(reader, authorizer, resolver_of_its_own())

    def view(self, request: AdmissionRequest, version: str) -> PolicyView:
        """Return the request in a version as the expressions of policies read it."""
        return PolicyView(request, version, self.reader, self.authorizer)

    async def hold(self, conditions: Conditions, request: AdmissionRequest, read: Callable[[], ReadVariable]) -> bool:
        """Return whether match conditions are true. `read` is called for each attempt. Raises ConditionsFailed."""
        known = KnownValues()
        return await self.resolver.run(request.user.name, False, lambda: held(conditions, read(), known))


class Judge(Protocol):
    """A policy or webhook, ready to be evaluated."""

    @property
    def matcher(self) -> Matcher: ...


J = TypeVar("J", bound=Judge)


class Configured(Generic[J]):
    """The judges that configuration objects define, in order.

    They are created again when one of these objects changes.
    """

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
        """Return the judges that may match a request; empty if the request is about an exempt resource.

        Cached by resource, operation, subresource and version.
        """
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
