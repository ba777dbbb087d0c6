"""Why claims get no devices, as data: what was counted, which input is wrong, which pool is unusable, where time ran out.

The allocator fills these structs; the scheduler tallies them, explain and the dashboard show them. A code says what
happened, the other fields say to what and how often. Left out: words (`wording`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

# A request that cannot be served: how many devices are left after each condition.


class StepCode(StrEnum):
    """A condition that devices must meet to serve a request, in the order in which they are looked at."""

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
    """What an amount that is needed exceeds: what others leave, all that there is, or what one request may have."""

    LEFT = "left"
    TOTAL = "total"
    REQUEST = "request"


class LackingAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a device needs and how much of it can be had: of a counter, or (without `counter_set`) of its own capacity.

    `device` is written driver/pool/device.
    """

    device: str
    name: str
    needed: str
    left: str
    counter_set: str = ""
    limit: AmountLimit = AmountLimit.LEFT

    @property
    def place(self) -> str:
        """What it is an amount of: the pool that has the counter, or the device itself."""
        return self.device.rpartition("/")[0] if self.counter_set else self.device


class DeviceStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many devices remain after one condition.

    `subject` is the class, the attribute, or the feature gate that is off; `number` is that of the selector. `lacking`
    tells what ran out for the devices that come closest.
    """

    code: StepCode
    devices: int
    subject: str = ""
    number: int | None = None
    lacking: tuple[LackingAmount, ...] = ()


class AlternativeReasons(msgspec.Struct, frozen=True):
    """One way to serve a request: what it needs and what is left of the published devices, step by step."""

    name: str
    needed: int
    every: bool
    steps: tuple[DeviceStep, ...]

    @property
    def available(self) -> int:
        """Devices that pass every step."""
        return self.steps[-1].devices

    @property
    def enough(self) -> bool:
        """Whether this alternative could be served if nobody else wanted devices."""
        return self.available >= max(self.needed, int(self.every))

    @property
    def lost_at(self) -> DeviceStep:
        """The step after which too few devices remain; the last one, where none is to blame."""
        needed = max(self.needed, 1)
        return next((step for step in self.steps if step.devices < needed), self.steps[-1])


class RequestReasons(msgspec.Struct, frozen=True):
    """A request with all its alternatives."""

    claim: str
    request: str
    alternatives: tuple[AlternativeReasons, ...]

    @property
    def enough(self) -> bool:
        """Whether some alternative could be served alone."""
        return any(alternative.enough for alternative in self.alternatives)


class ConstraintReasons(msgspec.Struct, frozen=True):
    """A constraint that cannot be met: how many devices must agree, and the value that most free devices share."""

    claim: str
    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    needed: int
    best_value: str
    best: int


class RequestConflict(msgspec.Struct, frozen=True):
    """The smallest set of requests, as (claim, request), that cannot be served together."""

    requests: tuple[tuple[str, str], ...]
    needed: int
    devices: int


class PoolState(StrEnum):
    """Whether devices of a pool may be used."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class PoolReasons(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pool, written driver/pool, whose devices could not be used at all; where a gate is off, with the gate.

    `suffices` says that they would serve the request that lacks devices.
    """

    pool: str
    state: PoolState
    gate: str = ""
    suffices: bool = False


class Reasons(msgspec.Struct, frozen=True):
    """Everything there is to say about why claims cannot be allocated on a node."""

    node: str
    requests: tuple[RequestReasons, ...]
    constraints: tuple[ConstraintReasons, ...]
    conflict: RequestConflict | None
    pools: tuple[PoolReasons, ...]

    @property
    def lacking(self) -> RequestReasons | None:
        """The first request that could not be served even if nobody else wanted devices."""
        return next((request for request in self.requests if not request.enough), None)

    def most_for(self, claim: str, alternative: str) -> int:
        """How many devices are left for a way to serve a request of a claim, given without its namespace."""
        found = (
            one.available
            for request in self.requests
            if request.claim.rpartition("/")[2] == claim
            for one in request.alternatives
            if one.name == alternative
        )
        return next(found, 0)

    def explains(self, conflict: RequestConflict) -> bool:
        """Whether a conflict is no more than a request that lacks devices by itself."""
        lacking = {(request.claim, request.request) for request in self.requests if not request.enough}
        return len(conflict.requests) == 1 and conflict.requests[0] in lacking


# Input that is wrong.


class InputCode(StrEnum):
    """What is wrong with a claim, a class or the pools of a node."""

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
    """Input that no devices can make right.

    `subject` is the class, the mode, the capacity or the node that the code speaks of; `number` the selector, the constraint or the
    count, of which `limit` are allowed; `detail` is what CEL itself said. `device` and `pool` are written driver/pool/device and driver/pool.
    With `node_only`, another node may still do.
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


# Pools whose slices do not fit together.


class PoolCode(StrEnum):
    """Why the slices of a pool make none that can be used."""

    SLICES_MISSING = "slices-missing"
    SLICE_COUNTS_DIFFER = "slice-counts-differ"
    DUPLICATE_DEVICE = "duplicate-device"
    DUPLICATE_COUNTER_SET = "duplicate-counter-set"
    UNKNOWN_COUNTER_SET = "unknown-counter-set"
    UNKNOWN_COUNTER = "unknown-counter"


class PoolProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with a pool: `published` slices of `expected`, a name that stands twice, or a counter that is not."""

    code: PoolCode
    published: int = 0
    expected: tuple[int, ...] = ()
    device: str = ""
    counter_set: str = ""
    counter: str = ""

    @property
    def state(self) -> PoolState:
        """A pool that lacks slices may become whole; one that contradicts itself will not."""
        missing = (PoolCode.SLICES_MISSING, PoolCode.SLICE_COUNTS_DIFFER)
        return PoolState.INCOMPLETE if self.code in missing else PoolState.INVALID


# Time that ran out.


class TimeoutCode(StrEnum):
    """What the allocator was doing when its time was up."""

    SELECTORS = "selectors-timed-out"
    SEARCH = "search-timed-out"


class TimedOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far an allocation came: request number `number` of `requests`, with `got` of its devices."""

    code: TimeoutCode
    claim: str = ""
    request: str = ""
    number: int = 0
    requests: int = 0
    got: int = 0
