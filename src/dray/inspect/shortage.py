"""The cause of a device shortage, derived from the verdicts of all nodes.

The node that came closest shows the step at which devices ran out. The census of the whole cluster shows what that
means: no such devices exist, other claims have them, or they are spread over too many nodes. For shared counters and
capacity, the cause names the claims that hold them. Left out: other reasons that keep a pod from a node (`pods`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from dray.api.allocations import DeviceId, Taken, taken_by_claim
from dray.api.pools import PoolName
from dray.api.quantity import Quantity
from dray.api.reasons.causes.amounts import AmountCause, CapacityExhausted, CapacityTooLarge, CountersExhausted
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.conflicts import AlternativesShort, NoCombination, RequestsConflict, ShortAlternative
from dray.api.reasons.causes.constraints import ConstraintAttribute, ConstraintOfAll, ConstraintUnmet
from dray.api.reasons.causes.pools import IncompletePool, InvalidPool
from dray.api.reasons.causes.selectors import ClassMatchesNothing, NoMatch, SelectorFails, UnknownAttribute
from dray.api.reasons.causes.tainted import DevicesTainted
from dray.api.reasons.causes.taken import AllTaken, Fragmented, NotAllFree
from dray.api.reasons.causes.too_few import FeatureOff, NoDevices, TooFewDevices, TooManyDevices
from dray.api.reasons.causes.undecided import SearchTookTooLong, UnknownCause, WrongInput
from dray.api.reasons.devices import (
    SELECTOR_PROBLEMS,
    AlternativeReasons,
    AmountLimit,
    ConstraintReasons,
    DeviceStep,
    InputCode,
    InputProblem,
    LackingAmount,
    PoolState,
    Reasons,
    RequestConflict,
    RequestReasons,
    StepCode,
)
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.requested import ClaimAmount, HeldAmount
from dray.api.reasons.wording import request_of
from dray.api.taints import taint_text
from dray.api.types.resource import Device, DeviceTaint, DeviceTaintRule, ResourceClaim
from dray.cel import Interrupted
from dray.inspect.asking import Ask, DeviceCensus, asks_of
from dray.inspect.explanation import Holder
from dray.inspect.hardware import Hardware, alike, matching
from dray.inspect.placement import Allowance, judge_devices
from dray.inspect.selectors import fault_of, missing_name
from dray.inspect.snapshot import Snapshot
from dray.verdicts.devices import progress


class Amounts:
    """Counters and capacities held by the claims of a cluster."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware) -> None:
        self._snapshot = snapshot
        self._devices = {one.id: one.device for one in hardware.devices}

    def holders(self, lacking: Iterable[LackingAmount]) -> dict[str, tuple[HeldAmount, ...]]:
        """Return for each claim, by namespace/name, what it holds of the lacking amounts.

        Claims that hold nothing are omitted.
        """
        wanted = sorted({(one.place, one.counter_set, one.name) for one in lacking if one.limit is AmountLimit.LEFT})
        found = {}
        for claim in self._snapshot.all(ResourceClaim) if wanted else ():
            taken = taken_by_claim(claim)
            held = tuple(
                HeldAmount(place, name, str(much), counter_set)
                for place, counter_set, name in wanted
                if (much := self._held(taken, place, counter_set, name)).sign > 0
            )
            if held:
                found[f"{claim.metadata.namespace}/{claim.metadata.name}"] = held
        return found

    def _held(self, taken: Taken, place: str, counter_set: str, name: str) -> Quantity:
        if not counter_set:
            shares = (dict(share.consumed) for share in taken.shares if str(share.device) == place)
            return _total(consumed.get(name) for consumed in shares)
        touched = (id_ for id_ in taken.touched if f"{id_.driver}/{id_.pool}" == place)
        devices = (self._devices.get(id_) for id_ in touched)
        return _total(drawn(device, counter_set, name) for device in devices if device is not None)


def _total(amounts: Iterable[str | None]) -> Quantity:
    total = Quantity.parse("0")
    for much in amounts:
        if much is not None:
            total = total + Quantity.parse(much) if total.sign else Quantity.parse(much)
    return total


def drawn(device: Device, counter_set: str, counter: str) -> str | None:
    """Return how much a device draws from a counter, as published; None if nothing."""
    for consumption in device.consumesCounters:
        found = consumption.counters.get(counter) if consumption.counterSet == counter_set else None
        if found is not None and Quantity.parse(found.value).sign > 0:
            return found.value
    return None


_WITHOUT_HINT = {
    InputCode.SELECTOR_MISSING_KEY: InputCode.SELECTOR_RUNTIME,
    InputCode.CLASS_SELECTOR_MISSING_KEY: InputCode.CLASS_SELECTOR_RUNTIME,
}  # the hint is given as a suggestion instead


class ClaimShortage:
    """Analysis of claims that no node can serve."""

    def __init__(
        self,
        snapshot: Snapshot,
        claims: Sequence[ResourceClaim],
        verdicts: Sequence[NodeVerdict],
        allowance: Allowance | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._claims = {f"{c.metadata.namespace}/{c.metadata.name}": c for c in claims}
        self._verdicts = verdicts
        self._allowance = allowance or Allowance()
        self.hardware = Hardware(snapshot.pools, self._allowance.cluster)
        self._taken = snapshot.taken
        self._amounts = Amounts(snapshot, self.hardware)

    # The cause

    def cause(self) -> Cause:
        """Return why the claims cannot be served on any node.

        SearchTookTooLong if the allowance is used up.
        """
        allowed = [v for v in self._verdicts if v.may_run] or [*self._verdicts]
        try:
            return self._wrong(allowed) or self._late(allowed) or self._short(allowed)
        except Interrupted:
            return SearchTookTooLong()

    def _short(self, verdicts: Iterable[NodeVerdict]) -> Cause:
        """Return the cause for too few devices, based on the node that came closest.

        UnknownCause if no node has reasons.
        """
        short = [v.devices for v in verdicts if v.devices is not None]
        if not short:
            return UnknownCause()
        closest = max(short, key=progress)
        if closest.lacking is not None:
            return self._request(closest.lacking, closest)
        if closest.constraints:
            return self._constraint(closest.constraints[0], closest.node)
        if closest.conflict is not None:
            return _conflict(closest.conflict)
        return _no_combination(closest)

    def _late(self, verdicts: Sequence[NodeVerdict]) -> Cause | None:
        """Return the cause if the search on some nodes was not completed, or None.

        It counts the nodes whose search was not completed, and all nodes.
        """
        late = [v for v in verdicts if v.is_late]
        if not late:
            return None
        at = next((v.progress for v in late if v.progress is not None), None)
        return SearchTookTooLong(len(late), len(verdicts), at)

    def _wrong(self, verdicts: Sequence[NodeVerdict]) -> Cause | None:
        """Return the cause for wrong input, or None. Selector errors take precedence over pool problems."""
        problems = [v.problem for v in verdicts if v.problem is not None]
        if not problems:
            return None
        failing = next((problem for problem in problems if problem.code in SELECTOR_PROBLEMS), None)
        if failing is not None:
            return self._selector_fails(failing)
        first = next((problem for problem in problems if problem.code is InputCode.INVALID_POOLS), problems[0])
        match first.code:
            case InputCode.INVALID_POOLS:
                return self._invalid_pools(verdicts)
            case InputCode.POOL_INCOMPLETE | InputCode.POOL_INVALID:
                pool = PoolName(*first.pool.split("/", 1))
                return self._broken_pool([pool]) or WrongInput(first)
            case InputCode.CONSTRAINT_REFUSED:
                return ConstraintOfAll(_name(first.claim), first)
            case InputCode.TOO_MANY_DEVICES:
                return TooManyDevices(_name(first.claim), first)
            case _:
                return WrongInput(first, _name(first.claim))

    def _invalid_pools(self, verdicts: Sequence[NodeVerdict]) -> Cause:
        """Return the cause for an invalid pool with suitable devices, or else the cause without invalid pools."""
        invalid = {name for name, problem in self.hardware.problems.items() if problem.state is PoolState.INVALID}
        asks = [DeviceCensus(ask, self.hardware, self._taken) for ask in self._asks()]
        suspects = [name for census in asks for name in census.locked_away() if name in invalid]
        cause = self._broken_pool(suspects)
        if cause is not None:
            return cause
        nodes = {verdict.node for verdict in verdicts}
        without = self._snapshot.without_pools(invalid)
        again = judge_devices(without, [*self._claims.values()], self._allowance.trial().nodes)
        return self._short([verdict for verdict in again if verdict.node in nodes])

    def _selector_fails(self, problem: InputProblem) -> Cause:
        """Return the cause for a selector that fails during evaluation."""
        told = replace(problem, code=_WITHOUT_HINT.get(problem.code, problem.code))
        expressions = (expression for ask in self._asks() for expression in (*ask.of_class, *ask.selectors))
        faults = (missing_name(expression, self.hardware) for expression in expressions)
        fault = next((fault for fault in faults if fault is not None), None)
        return SelectorFails(_name(problem.claim), told, fault)

    def _asks(self) -> list[Ask]:
        """Return all requests and alternatives of the claims."""
        return [ask for claim in self._claims.values() for ask in asks_of(claim, self._snapshot).values()]

    def _census(self, claim: str, alternative: str) -> DeviceCensus:
        """Return the device census for an alternative of a claim.

        `claim` is namespace/name, `alternative` the allocator name of the request.
        """
        ask = asks_of(self._claims[claim], self._snapshot)[alternative]
        return DeviceCensus(ask, self.hardware, self._taken)

    # A request that lacks devices

    def _request(self, request: RequestReasons, closest: Reasons) -> Cause:
        """Return the cause for a request that lacks devices, covering all of its alternatives."""
        causes = [self._alternative(request.claim, a, closest.node) for a in request.alternatives]
        if len(causes) == 1:
            return causes[0]
        names = [a.name.removeprefix(f"{request.request}/") for a in request.alternatives]
        alternatives = tuple(map(ShortAlternative, names, causes))
        claim = self._claims[request.claim]
        template = self._snapshot.template_of(claim)
        return AlternativesShort(claim.metadata.name, request.request, alternatives, template)

    def _alternative(self, claim: str, reasons: AlternativeReasons, node: str) -> Cause:
        """Return the cause for one alternative of a request, depending on the step at which devices ran out."""
        census = self._census(claim, reasons.name)
        needed = max(reasons.needed, 1)
        locked = census.locked_away()
        if any(count + reasons.available >= needed for count in locked.values()) and not reasons.enough:
            broken = self._broken_pool(locked)
            if broken is not None:
                return broken
        lost = reasons.lost_at
        match lost.code:
            case StepCode.PUBLISHED:
                return self._published(census, needed)
            case StepCode.CLASS:
                return self._class(census, reasons, node)
            case StepCode.SELECTOR:
                return self._selector(census, reasons, node, lost.number or 0)
            case StepCode.SUPPORTED:
                return _unsupported(census, reasons, lost)
            case StepCode.TOLERATED:
                return self._tainted(census, reasons, node)
            case StepCode.FREE:
                return self._taken_by_others(census, reasons, node)
            case StepCode.COUNTERS | StepCode.CAPACITY if lost.lacking:
                return self._exhausted(census, reasons, node, lost)
            case StepCode.MATCHING | StepCode.DISTINCT:
                return self._attribute(claim, census, reasons, node)
            case _:
                return _too_few(census, reasons, node, lost)

    def _published(self, census: DeviceCensus, needed: int) -> Cause:
        """Return the cause if too few devices are published.

        `needed` is the number of devices that the request needs.
        """
        asked = census.ask.asked(needed)
        if not self.hardware.devices:
            return NoDevices(asked)
        devices = Counter(one.node for one in self.hardware.usable)
        node, best = next(iter(devices.most_common(1)), ("", 0))
        return TooFewDevices(asked, best, node, DeviceStep(StepCode.PUBLISHED, best))

    def _class(self, census: DeviceCensus, reasons: AlternativeReasons, node: str) -> Cause:
        """Return the cause if too few devices match the class."""
        ask, left = census.ask, self.hardware.usable
        if census.of_class:
            return _too_few(census, reasons, node, reasons.lost_at)
        for expression in ask.of_class:
            passed = matching(left, [expression], self.hardware.meter).passed
            if not passed:
                break
            left = passed
        fault = fault_of(expression, left, self.hardware)
        return ClassMatchesNothing(ask.asked(reasons.needed), len(self.hardware.usable), fault)

    def _selector(self, census: DeviceCensus, reasons: AlternativeReasons, node: str, number: int) -> Cause:
        """Return the cause if too few devices match a selector.

        `number` is the index of the selector.
        """
        ask = census.ask
        if census.after(number + 1):
            return _too_few(census, reasons, node, reasons.lost_at)
        before = census.after(number)
        fault = fault_of(ask.selectors[number], before, self.hardware)
        kind = UnknownAttribute if fault.devices else NoMatch
        return kind(ask.asked(reasons.needed), number, len(before), fault)

    def _tainted(self, census: DeviceCensus, reasons: AlternativeReasons, node: str) -> Cause:
        """Return the cause if taints exclude devices."""
        taints = census.taints()
        if not taints:
            return _too_few(census, reasons, node, reasons.lost_at)
        return DevicesTainted(
            census.ask.asked(reasons.needed),
            matching=len(census.selected),
            tainted=len(census.tainted),
            taints=tuple(map(taint_text, taints)),
            taint_rules=tuple(rules_with(taints, self._snapshot)),
        )

    def _taken_by_others(self, census: DeviceCensus, reasons: AlternativeReasons, node: str) -> Cause:
        """Return the cause if too few matching devices are free."""
        needed, best = reasons.needed, reasons.available
        asked = census.ask.asked(needed)
        if reasons.every:
            return NotAllFree(asked, best, node)
        free = census.free
        if len(free) >= needed:
            spread = len({one.node for one in free})
            return Fragmented(asked, len(free), spread, best, node)
        taints = census.taints()
        return AllTaken(
            asked,
            matching=len(census.selected),
            taken=len(census.taken),
            tainted=len(census.tainted),
            taints=tuple(map(taint_text, taints)),
            taint_rules=tuple(rules_with(taints, self._snapshot)),
        )

    def _exhausted(self, census: DeviceCensus, reasons: AlternativeReasons, node: str, lost: DeviceStep) -> Cause:
        """Return the cause for exhausted counters or capacity with their holders, for the device that comes closest."""
        lacking = tuple(amount for amount in lost.lacking if amount.device == lost.lacking[0].device)
        kind: type[AmountCause] = CountersExhausted if lost.code is StepCode.COUNTERS else CapacityExhausted
        if lacking[0].limit is not AmountLimit.LEFT:
            kind = CapacityTooLarge
        held = tuple(ClaimAmount(claim, one) for claim, of in self._amounts.holders(lacking).items() for one in of)
        return kind(census.ask.asked(reasons.needed), lost.devices, node, lost, lacking, held)

    def _attribute(self, claim: str, census: DeviceCensus, reasons: AlternativeReasons, node: str) -> Cause:
        """Return the cause for a constraint that fails within one request."""
        lost = reasons.lost_at
        distinct = lost.code is StepCode.DISTINCT
        requests = (census.ask.name,)
        found = ConstraintReasons(claim, lost.subject, distinct, requests, reasons.needed, "", lost.devices)
        return self._constraint(found, node)

    # Constraints on several devices

    def _constraint(self, constraint: ConstraintReasons, node: str) -> Cause:
        """Return the cause for a constraint that no set of devices satisfies."""
        attribute = constraint.attribute
        known = [f"{d}/{n}" for k, d, n in self.hardware.values if k == "attributes"]
        claim = self._claims[constraint.claim].metadata.name
        template = self._snapshot.template_of(self._claims[constraint.claim])
        if attribute in known:
            return ConstraintUnmet(
                claim,
                constraint.requests,
                attribute,
                constraint.distinct,
                needed=constraint.needed,
                most=constraint.best,
                node=node,
                template=template,
            )
        name = attribute.rpartition("/")[2]
        meant = alike(attribute, known) or next((k for k in known if k.endswith(f"/{name}")), "")
        return ConstraintAttribute(claim, constraint.requests, attribute, len(self.hardware.devices), meant, template)

    # Unusable pools

    def _broken_pool(self, pools: Iterable[PoolName]) -> Cause | None:
        """Return the cause for the first of these pools that is unusable, or None."""
        for name in pools:
            problem = self.hardware.problems.get(name)
            if problem is not None:
                incomplete = problem.state is PoolState.INCOMPLETE
                kind = IncompletePool if incomplete else InvalidPool
                return kind(name.driver, name.pool, problem)
        return None

    # Holders of devices

    def holders(self) -> tuple[Holder, ...]:
        """Return the claims that hold suitable devices, most devices first; empty if the search takes too long."""
        try:
            return self._holders()
        except Interrupted:
            return ()

    def _holders(self) -> tuple[Holder, ...]:
        wanted = {
            one.id: one.node for ask in self._asks() for one in DeviceCensus(ask, self.hardware, self._taken).taken
        }
        amounts = self._amounts.holders(self._lacking())
        held: dict[str, list[DeviceId]] = {name: [] for name in amounts}
        claims = {f"{c.metadata.namespace}/{c.metadata.name}": c for c in self._snapshot.all(ResourceClaim)}
        for device in filter(wanted.__contains__, self._snapshot.holders):
            for claim in self._snapshot.holders.claims(device):
                held.setdefault(f"{claim.metadata.namespace}/{claim.metadata.name}", []).append(device)
        ordered = sorted(held, key=lambda name: (-len(held[name]), name))
        return tuple(
            Holder(
                claim=name,
                devices=tuple(sorted(str(device) for device in held[name])),
                consumers=tuple(f"{r.resource.removesuffix('s')} {r.name}" for r in claims[name].status.reservedFor),
                node=next((wanted[device] for device in held[name] if wanted[device]), ""),
                amounts=amounts.get(name, ()),
            )
            for name in ordered
        )

    def _lacking(self) -> list[LackingAmount]:
        """Return the counters and capacity that are lacking, over all nodes that the pod may use."""
        short = [v.devices for v in self._verdicts if v.devices is not None and v.may_run]
        return [
            amount
            for reasons in short
            for request in reasons.requests
            for alternative in request.alternatives
            if not alternative.enough
            for amount in alternative.lost_at.lacking
        ]


def _name(key: str) -> str:
    """Return the name part of a claim given as namespace/name."""
    return key.rpartition("/")[2]


def _conflict(conflict: RequestConflict) -> Cause:
    """Return the cause for requests that cannot be satisfied together."""
    names, spare = _together(conflict.requests)
    return RequestsConflict(names, conflict.needed, conflict.devices, spare)


def _no_combination(closest: Reasons) -> Cause:
    """Return the cause if all requests fit individually but no combination of devices works."""
    requests = [(request.claim, request.request) for request in closest.requests]
    names, spare = _together(requests)
    return NoCombination(names, closest.node, spare)


def _together(requests: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], str]:
    """Return the names of requests, and a claim that could be moved to another pod (empty for a single claim).

    `requests` are pairs of claim and request. The claim is that of the last pair.
    """
    several = len({claim for claim, _ in requests}) > 1
    names = tuple(request_of(_name(claim), request) for claim, request in requests)
    return names, _name(requests[-1][0]) if several else ""


def _too_few(census: DeviceCensus, reasons: AlternativeReasons, node: str, lost: DeviceStep) -> Cause:
    """Return the cause for too few devices at a step."""
    asked = census.ask.asked(reasons.needed)
    return TooFewDevices(asked, lost.devices, node, lost)


def _unsupported(census: DeviceCensus, reasons: AlternativeReasons, lost: DeviceStep) -> Cause:
    """Return the cause for devices that need a feature whose gate is off."""
    off = len(census.selected) - lost.devices
    return FeatureOff(census.ask.asked(reasons.needed), lost.subject, off)


def rules_with(taints: Iterable[DeviceTaint], snapshot: Snapshot) -> list[str]:
    """Return the names of the DeviceTaintRules that add these taints.

    Rules are compared by key and effect of the taint.
    """
    keys = {(taint.key, taint.effect) for taint in taints}
    rules = snapshot.all(DeviceTaintRule)
    return [rule.metadata.name for rule in rules if (rule.spec.taint.key, rule.spec.taint.effect) in keys]
