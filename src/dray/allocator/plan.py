"""The requests, alternatives and constraints of claims in the form that the allocator uses, with errors in them.

A plan depends on the specs of the claims, the classes and the features, but not on devices. Claims from one template
share a plan. Left out: which devices match (`problem`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.content import RequestClasses
from dray.allocator.faults import Fault
from dray.allocator.identity import Features
from dray.api.reasons.devices import InputCode, InputProblem
from dray.api.types.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
)

DeviceRequestSpec = ExactDeviceRequest | DeviceSubRequest


class Alternative(NamedTuple):
    """One alternative of a request. `name` is used in results, `label` in messages. Selectors of the class come first."""

    name: str
    label: str
    class_name: str
    of_class: int
    selectors: tuple[str, ...]
    mode: str
    wanted: int
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: RequestClasses
    derived: Mapping[str, str]  # derived attribute → expression
    ignored: frozenset[str]  # derived attributes that are ignored because the gate is off
    fault: Fault | None


class PlannedRequest(NamedTuple):
    """A request of claim number `claim`. Without `prioritized`, it has exactly one alternative."""

    claim: int
    name: str
    alternatives: tuple[Alternative, ...]
    prioritized: bool
    fault: Fault | None


class Constraint(NamedTuple):
    """The devices of `requests` (of all requests, if empty) must have equal or distinct values of an attribute."""

    claim: int
    attribute: str
    distinct: bool
    requests: frozenset[str]
    fault: Fault | None

    def covers(self, request: PlannedRequest, alternative: Alternative) -> bool:
        """Return whether the constraint applies to an alternative, named by its request or by its own name.

        Returns False for a request of another claim. A constraint without requests applies to all of its claim's.
        """
        if request.claim != self.claim:
            return False
        return not self.requests or request.name in self.requests or alternative.name in self.requests


class AllocationPlan(NamedTuple):
    """All requests and constraints of some claims, in order."""

    claims: tuple[DeviceClaim, ...]
    classes: Mapping[str, DeviceClass]
    requests: tuple[PlannedRequest, ...]
    constraints: tuple[Constraint, ...]


def plan(
    claims: Sequence[DeviceClaim], classes: Callable[[str], DeviceClass | None], features: Features
) -> AllocationPlan:
    """Create the plan of some claims. Errors are stored where they occur, because the search meets them in that order."""
    reader = _ClaimReader(classes, features)
    requests = [
        reader.request(number, request) for number, claim in enumerate(claims) for request in claim.requests or ()
    ]
    constraints = [
        _constraint(number, place, constraint)
        for number, claim in enumerate(claims)
        for place, constraint in enumerate(claim.constraints)
    ]
    return AllocationPlan(tuple(claims), reader.used, tuple(requests), tuple(constraints))


def _constraint(claim: int, place: int, constraint: DeviceConstraint) -> Constraint:
    attribute = constraint.matchAttribute or constraint.distinctAttribute
    fault = None
    if attribute is None:
        fault = _fault(claim, "", InputCode.EMPTY_CONSTRAINT, number=place)
    distinct = constraint.matchAttribute is None
    return Constraint(claim, attribute or "", distinct, frozenset(constraint.requests), fault)


class _ClaimReader:
    def __init__(self, classes: Callable[[str], DeviceClass | None], features: Features) -> None:
        self.classes = classes
        self.features = features
        self.used: dict[str, DeviceClass] = {}

    def request(self, claim: int, request: DeviceRequest) -> PlannedRequest:
        fault = self._request_fault(claim, request)
        specs: tuple[DeviceRequestSpec, ...] = request.firstAvailable or ((request.exactly,) if request.exactly else ())
        alternatives = () if fault else tuple(self._alternative(claim, request, spec) for spec in specs)
        return PlannedRequest(claim, request.name, alternatives, bool(request.firstAvailable), fault)

    def _request_fault(self, claim: int, request: DeviceRequest) -> Fault | None:
        if request.firstAvailable and not self.features.prioritized_list:
            return _fault(claim, request.name, InputCode.SUBREQUESTS_OFF)
        if not request.firstAvailable and request.exactly is None:
            return _fault(claim, request.name, InputCode.NO_REQUEST_TYPE)
        if self.features.consumable_capacity:
            return None
        if request.exactly is not None and request.exactly.capacity is not None:
            return _fault(claim, request.name, InputCode.CAPACITY_OFF)
        for sub in request.firstAvailable:
            if sub.capacity is not None:
                return _fault(claim, sub.name, InputCode.SUBREQUEST_CAPACITY_OFF)
        return None

    def _alternative(self, claim: int, request: DeviceRequest, spec: DeviceRequestSpec) -> Alternative:
        name = label = request.name
        if isinstance(spec, DeviceSubRequest):
            name, label = f"{request.name}/{spec.name}", spec.name
        class_ = self.classes(spec.deviceClassName)
        fault = self._alternative_fault(claim, label, spec, class_)
        if class_ is not None:
            self.used[spec.deviceClassName] = class_
        of_class = _expressions(class_.spec.selectors) if class_ is not None else ()
        return Alternative(
            name=name,
            label=label,
            class_name=spec.deviceClassName,
            of_class=len(of_class),
            selectors=of_class + _expressions(spec.selectors),
            mode=spec.allocationMode,
            wanted=spec.count,
            admin=isinstance(spec, ExactDeviceRequest) and bool(spec.adminAccess),
            tolerations=spec.tolerations,
            capacity=tuple(sorted(spec.capacity.requests.items())) if spec.capacity is not None else (),
            derived={one.name: one.expression for one in spec.derivedAttributes} if self._derives else {},
            ignored=frozenset() if self._derives else frozenset(one.name for one in spec.derivedAttributes),
            fault=fault,
        )

    @property
    def _derives(self) -> bool:
        return self.features.derived_attributes

    def _alternative_fault(
        self, claim: int, label: str, spec: DeviceRequestSpec, class_: DeviceClass | None
    ) -> Fault | None:
        for place, selector in enumerate(spec.selectors):
            if selector.cel is None:
                return _fault(claim, label, InputCode.EMPTY_SELECTOR, number=place)
        if isinstance(spec, ExactDeviceRequest) and spec.adminAccess is not None and not self.features.admin_access:
            return _fault(claim, label, InputCode.ADMIN_ACCESS_OFF)
        name = spec.deviceClassName
        if not name:
            return _fault(claim, label, InputCode.NO_CLASS_NAME)
        if class_ is None:
            return _fault(claim, label, InputCode.CLASS_NOT_FOUND, subject=name)
        for place, selector in enumerate(class_.spec.selectors):
            if selector.cel is None:
                return Fault(InputProblem(InputCode.CLASS_EMPTY_SELECTOR, subject=name, number=place))
        if spec.allocationMode not in ("ExactCount", "All"):
            return _fault(claim, label, InputCode.COUNT_MODE, subject=spec.allocationMode)
        return None


def _fault(claim: int, request: str, code: InputCode, *, subject: str = "", number: int = 0) -> Fault:
    return Fault(InputProblem(code, request=request, subject=subject, number=number), claim)


def _expressions(selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
