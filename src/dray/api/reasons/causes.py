"""Why something waits, as data: the one cause, with what it is about and the numbers behind it.

Explain fills these structs, programs read them; a dashboard may show them. Left out: finding a cause (`dray.inspect`),
what would help (`suggestions`), words (`wording`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dray.api.reasons.devices import DeviceStep, InputProblem, LackingAmount, PoolProblem, TimedOut
from dray.api.reasons.nodes import NodeReason


class CauseCode(StrEnum):
    """The one thing that is in the way, or that nothing is."""

    # It does not wait.
    FINISHED = "Finished"
    RUNNING = "Running"
    ALLOCATED = "Allocated"
    ANSWERED = "Complete"
    NO_POOLS = "NoPools"
    ANSWER_FAILED = "Failed"
    ALL_RUN = "AllRun"
    # Names that lead nowhere, and what does not run.
    CLAIM_MISSING = "ClaimMissing"
    TEMPLATE_MISSING = "TemplateMissing"
    CLASS_MISSING = "ClassMissing"
    GROUP_MISSING = "GroupMissing"
    GROUP_CLAIM_MISSING = "GroupClaimMissing"
    RESOURCE_UNKNOWN = "NoSuchResource"
    NO_CLAIM_CONTROLLER = "NoClaimController"
    NO_SCHEDULER = "NoScheduler"
    NO_CONTROLLER = "NoController"
    # Claims that cannot be made or used.
    QUOTA = "Quota"
    CLAIM_REFUSED = "ClaimRefused"
    PODS_REFUSED = "PodsRefused"
    PODS_NOT_MADE = "PodsNotMade"
    SUSPENDED = "Suspended"
    ACCOUNT_MISSING = "ServiceAccountMissing"
    CLAIM_DELETING = "ClaimDeleting"
    CLAIM_FULL = "ClaimFull"
    CLAIM_FOREIGN = "ForeignClaim"
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    CLAIM_OUT_OF_REACH = "ClaimOutOfReach"
    CLAIMS_APART = "ClaimsApart"
    CLAIM_LEFT_OVER = "ClaimLeftOver"
    CLAIM_UNUSABLE = "ClaimUnusable"
    CLAIM_UNUSED = "Unused"
    # Devices.
    SELECTOR_FAILS = "SelectorFails"
    ATTRIBUTE_UNKNOWN = "UnknownAttribute"
    NO_MATCH = "NoMatch"
    CLASS_MATCHES_NOTHING = "ClassMatchesNothing"
    NO_DEVICES = "NoDevices"
    TOO_FEW_DEVICES = "TooFewDevices"
    FEATURE_OFF = "FeatureOff"
    ALL_TAKEN = "AllTaken"
    FRAGMENTED = "Fragmented"
    CAPACITY_TOO_LARGE = "CapacityTooLarge"
    CAPACITY_EXHAUSTED = "CapacityExhausted"
    COUNTERS_EXHAUSTED = "CountersExhausted"
    TAINTED = "Tainted"
    POOL_INCOMPLETE = "IncompletePool"
    POOL_INVALID = "InvalidPool"
    CONSTRAINT = "Constraint"
    CONSTRAINT_ATTRIBUTE = "ConstraintAttribute"
    CONSTRAINT_ALL = "ConstraintOfAll"
    CONFLICT = "Conflict"
    NO_COMBINATION = "NoCombination"
    ALTERNATIVES_SHORT = "AlternativesShort"
    TOO_MANY_DEVICES = "TooManyDevices"
    INPUT_WRONG = "Wrong"
    TIMED_OUT = "TimedOut"
    UNKNOWN = "Unknown"
    # Nodes.
    NODE_RULES = "NodeRules"
    NO_NODES = "NoNodes"
    SCHEDULER_SAYS = "SchedulerSays"
    SCHEDULING_GATED = "SchedulingGated"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_UNPLACED = "GangUnplaced"
    WILL_BE_TRIED = "WillBeTried"
    DEVICES_NOT_READY = "DevicesNotReady"
    DEVICES_FAILED = "DevicesFailed"
    # On the node.
    NODE_MISSING = "NodeMissing"
    NODE_DEAD = "NodeDead"
    NODE_TROUBLE = "NodeTrouble"
    CLAIM_NOT_ALLOCATED = "ClaimNotAllocated"
    NOT_RESERVED = "NotReserved"
    IMAGE = "ImageNotPulled"
    CONTAINER_FAILS = "ContainerFails"
    CONTAINER_WAITS = "ContainerWaits"
    NOT_READY = "NotReady"
    VOLUME = "VolumeNotReady"
    INITIALIZING = "Initializing"
    STARTING = "Starting"
    DELETING = "Deleting"
    DELETING_NOT_UNPREPARED = "DriverNotThere"
    DELETING_HELD = "FinalizersLeft"
    OTHER_POD = "PodWaits"


class SelectorCode(StrEnum):
    """Why a selector matches no device."""

    NAME_MISSING = "name-missing"
    VALUE_MISSING = "value-missing"
    PARTS_APART = "parts-apart"
    NOTHING_MEETS = "nothing-meets"


class Place(msgspec.Struct, frozen=True):
    """An attribute or a capacity of devices: `kind` is attributes or capacity."""

    kind: str
    domain: str
    name: str


class SelectorFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with a selector.

    `place` is the name that it uses and none of `devices` devices has; `meant` is probably the right one, and `known`
    are those that exist. `part` is the part of the expression that nothing meets, `values` says how many devices have
    which value there. `parts` says on how many devices each part holds.
    """

    code: SelectorCode
    place: Place | None = None
    meant: Place | None = None
    devices: int = 0
    known: tuple[str, ...] = ()
    part: str = ""
    values: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()


class RequestedDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request asks for: `needed` devices of a class. `resource` is set for a claim made for extended resources."""

    claim: str
    request: str
    device_class: str
    needed: int
    resource: str = ""


class HeldAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a claim has in all: of a counter of a pool, or (without `counter_set`) of the capacity of a device.

    `place` is the pool or the device, written driver/pool and driver/pool/device.
    """

    place: str
    name: str
    amount: str
    counter_set: str = ""


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one cause.

    `subject` is what the code is about, by name, and `meant` a name that exists and is alike. `found` is how many there
    are of what is wanted, `of` out of how many, `limit` how many there may be. `names` lists what else is concerned.
    `message` is what somebody else said, word for word. `refused` counts what nodes say, `alternatives` are the causes of
    each way to serve a request. `lacking` is what ran out on the device that comes closest, `held` which claim, written
    namespace/name, has how much of it.
    """

    code: CauseCode
    subject: str = ""
    meant: str = ""
    claim: str = ""
    request: str = ""
    group: str = ""
    node: str = ""
    driver: str = ""
    message: str = ""
    names: tuple[str, ...] = ()
    wanted: str = ""
    found: int = 0
    of: int = 0
    limit: str = ""
    used: str = ""
    every: bool = False
    distinct: bool = False
    asked: RequestedDevices | None = None
    step: DeviceStep | None = None
    lacking: tuple[LackingAmount, ...] = ()
    held: tuple[tuple[str, HeldAmount], ...] = ()
    selector: SelectorFault | None = None
    input: InputProblem | None = None
    pool: PoolProblem | None = None
    progress: TimedOut | None = None
    refused: tuple[tuple[NodeReason, int], ...] = ()
    alternatives: tuple[Cause, ...] = ()
    behind: Cause | None = None
