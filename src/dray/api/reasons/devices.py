"""Reasons why claims cannot be allocated, as data: device counts, invalid input, unusable pools and timeouts.

The allocator fills these structs; the scheduler counts them, and explain and the dashboard show them. A code says
what happened; the other fields give names and numbers. `wording` formats them as text.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

# Requests that cannot be satisfied: number of devices that remain after each condition.


class StepCode(StrEnum):
    """Condition that a device must meet to satisfy a request, in the order in which conditions are checked."""

    PUBLISHED = "published"
    CLASS = "class"
    SELECTOR = "selector"
    SUPPORTED = "supported"
    TOLERATED = "tolerated"
    FREE = "free"
    COMPATIBLE = "compatible"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    MATCHING = "matching"
    DISTINCT = "distinct"


class AmountLimit(StrEnum):
    """Limit that a needed amount exceeds: the remaining amount, the total, or the maximum per request."""

    LEFT = "left"
    TOTAL = "total"
    REQUEST = "request"


class LackingAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount that a device needs, and how much is available: of a counter, or of the device's capacity if
    `counter_set` is empty.

    `device` has the form driver/pool/device.
    """

    device: str
    name: str
    needed: str
    left: str
    counter_set: str = ""
    limit: AmountLimit = AmountLimit.LEFT

    @property
    def place(self) -> str:
        """The owner of the amount: the pool of the counter (`driver/pool`), or the device of the capacity."""
        return self.device.rpartition("/")[0] if self.counter_set else self.device


class DeviceStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """Number of devices that remain after one condition.

    `subject` is the class, the attribute, or the feature gate that is off; `number` is the index of the selector.
    `lacking` lists the missing amounts of the devices that come closest.
    """

    code: StepCode
    devices: int
    subject: str = ""
    number: int | None = None
    lacking: tuple[LackingAmount, ...] = ()


class AlternativeReasons(msgspec.Struct, frozen=True):
    """One alternative of a request: the number of devices it needs, and the number that remain after each condition."""

    name: str
    needed: int
    every: bool
    steps: tuple[DeviceStep, ...]

    @property
    def available(self) -> int:
        """Number of devices that meet every condition."""
        return self.steps[-1].devices

    @property
    def enough(self) -> bool:
        """Whether this alternative could be satisfied if no other request needed devices."""
        return self.available >= max(self.needed, int(self.every))

    @property
    def lost_at(self) -> DeviceStep:
        """The first condition after which too few devices remain, or the last condition if enough remain."""
        needed = max(self.needed, 1)
        return next((step for step in self.steps if step.devices < needed), self.steps[-1])


class RequestReasons(msgspec.Struct, frozen=True):
    """A request with all its alternatives. `claim` has the form namespace/name."""

    claim: str
    request: str
    alternatives: tuple[AlternativeReasons, ...]

    @property
    def enough(self) -> bool:
        """Whether any alternative could be satisfied if no other request needed devices."""
        return any(alternative.enough for alternative in self.alternatives)


class ConstraintReasons(msgspec.Struct, frozen=True):
    """A constraint that cannot be met: how many devices it needs, and the value most free devices share."""

    claim: str
    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    needed: int
    best_value: str
    best: int


class RequestConflict(msgspec.Struct, frozen=True):
    """The smallest set of requests, as pairs (claim, request), that cannot be satisfied together."""

    requests: tuple[tuple[str, str], ...]
    needed: int
    devices: int


class PoolState(StrEnum):
    """Whether devices of a pool can be used."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class PoolReasons(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pool whose devices could not be used, as driver/pool. `gate` is set if the reason is a feature gate that
    is off.

    `suffices` says that its devices would satisfy the request that lacks devices.
    """

    pool: str
    state: PoolState
    gate: str = ""
    suffices: bool = False


class Reasons(msgspec.Struct, frozen=True):
    """All reasons why claims cannot be allocated on a node."""

    node: str
    requests: tuple[RequestReasons, ...]
    constraints: tuple[ConstraintReasons, ...]
    conflict: RequestConflict | None
    pools: tuple[PoolReasons, ...]

    @property
    def lacking(self) -> RequestReasons | None:
        """The first request that could not be satisfied even alone, or None."""
        return next((request for request in self.requests if not request.enough), None)

    def most_for(self, claim: str, alternative: str) -> int:
        """Return the number of devices for an alternative of a claim (name without namespace); 0 if unknown.

        Only devices that meet every condition count.
        """
        found = (
            one.available
            for request in self.requests
            if request.claim.rpartition("/")[2] == claim
            for one in request.alternatives
            if one.name == alternative
        )
        return next(found, 0)

    def explains(self, conflict: RequestConflict) -> bool:
        """Return whether a conflict consists of a single request that already lacks devices by itself."""
        lacking = {(request.claim, request.request) for request in self.requests if not request.enough}
        return len(conflict.requests) == 1 and conflict.requests[0] in lacking


# Invalid input.


class InputCode(StrEnum):
    """Problem in a claim, a class or the pools of a node."""

    SUBREQUESTS_OFF = "subrequests-off"
    NO_REQUEST_TYPE = "no-request-type"
    CAPACITY_OFF = "capacity-off"
    SUBREQUEST_CAPACITY_OFF = "subrequest-capacity-off"
    EMPTY_CONSTRAINT = "empty-constraint"
    EMPTY_SELECTOR = "empty-selector"
    CLASS_EMPTY_SELECTOR = "class-empty-selector"
    ADMIN_ACCESS_OFF = "admin-access-off"
    NO_CLASS_NAME = "no-class-name"
    CLASS_NOT_FOUND = "class-not-found"
    COUNT_MODE = "count-mode"
    TOO_MANY_DEVICES = "too-many-devices"
    POOL_INCOMPLETE = "pool-incomplete"
    POOL_INVALID = "pool-invalid"
    SELECTOR_COMPILE = "selector-compile"
    CLASS_SELECTOR_COMPILE = "class-selector-compile"
    SELECTOR_RUNTIME = "selector-runtime"
    CLASS_SELECTOR_RUNTIME = "class-selector-runtime"
    SELECTOR_MISSING_KEY = "selector-missing-key"
    CLASS_SELECTOR_MISSING_KEY = "class-selector-missing-key"
    DERIVED_FAILED = "derived-failed"
    CAPACITY_NEGATIVE = "capacity-negative"
    CAPACITY_BEYOND_RANGE = "capacity-beyond-range"
    CONSTRAINT_REFUSED = "constraint-refused"
    INVALID_POOLS = "invalid-pools"
    NODE_SELECTOR_TERMS = "node-selector-terms"
    UNKNOWN_NODE = "unknown-node"


SELECTOR_PROBLEMS = frozenset(
    {
        InputCode.SELECTOR_COMPILE,
        InputCode.CLASS_SELECTOR_COMPILE,
        InputCode.SELECTOR_RUNTIME,
        InputCode.CLASS_SELECTOR_RUNTIME,
        InputCode.SELECTOR_MISSING_KEY,
        InputCode.CLASS_SELECTOR_MISSING_KEY,
    }
)


class InputProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Invalid input that no devices can satisfy.

    `subject` is the class, mode, capacity or node that the code is about. `number` is the index of the selector
    or constraint, or a count whose maximum is `limit`. `detail` is the CEL error message. `device` has the form
    driver/pool/device, `pool` the form driver/pool. With `node_only`, the problem affects only this node.
    """

    code: InputCode
    claim: str = ""
    request: str = ""
    subject: str = ""
    device: str = ""
    pool: str = ""
    number: int = 0
    limit: int = 0
    detail: str = ""
    node_only: bool = False


# Pools with missing or inconsistent slices.


class PoolCode(StrEnum):
    """Why the slices of a pool cannot be used."""

    SLICES_MISSING = "slices-missing"
    SLICE_COUNTS_DIFFER = "slice-counts-differ"
    DUPLICATE_DEVICE = "duplicate-device"
    DUPLICATE_COUNTER_SET = "duplicate-counter-set"
    UNKNOWN_COUNTER_SET = "unknown-counter-set"
    UNKNOWN_COUNTER = "unknown-counter"


class PoolProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problem of a pool: slices are missing (`published` of `expected`), a duplicate name, or no such counter."""

    code: PoolCode
    published: int = 0
    expected: tuple[int, ...] = ()
    device: str = ""
    counter_set: str = ""
    counter: str = ""

    @property
    def state(self) -> PoolState:
        """INCOMPLETE if slices are missing and may still be published; INVALID if slices are contradictory."""
        missing = (PoolCode.SLICES_MISSING, PoolCode.SLICE_COUNTS_DIFFER)
        return PoolState.INCOMPLETE if self.code in missing else PoolState.INVALID


# Timeouts.


class TimeoutCode(StrEnum):
    """Phase of the allocator in which its time ran out."""

    SELECTORS = "selectors-timed-out"
    SEARCH = "search-timed-out"


class TimedOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progress of an allocation: it was at request `number` of `requests`, with `got` devices found for this request."""

    code: TimeoutCode
    claim: str = ""
    request: str = ""
    number: int = 0
    requests: int = 0
    got: int = 0
