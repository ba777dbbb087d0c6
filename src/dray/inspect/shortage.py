"""From what all nodes say about devices to the one cause.

The node that came closest names the step at which devices ran out; the census of the whole cluster tells what that means:
nobody has such devices, somebody else has them, or they are spread over too many nodes. Left out: everything that keeps
a pod away from a node for other reasons (`pods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from dray.api.allocations import DeviceId
from dray.api.pools import PoolName
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
from dray.api.reasons.nodes import NodeCode, NodeVerdict
from dray.api.reasons.wording import condition, input_problem, pool_problem, say, timed_out
from dray.api.types.resource import DeviceTaint, DeviceTaintRule, ResourceClaim
from dray.cel import Interrupted
from dray.inspect.amounts import Amounts
from dray.inspect.asking import Ask, Census, asks_of
from dray.inspect.explanation import Cause, Holder
from dray.inspect.hardware import Hardware, alike, matching
from dray.inspect.placement import judge_devices
from dray.inspect.selectors import Blame, blame_name, blame_selector
from dray.inspect.snapshot import Snapshot
from dray.inspect.wording import lacking_amounts
from dray.verdicts.devices import progress

_WITHOUT_HINT = {
    InputCode.SELECTOR_MISSING_KEY: InputCode.SELECTOR_RUNTIME,
    InputCode.CLASS_SELECTOR_MISSING_KEY: InputCode.CLASS_SELECTOR_RUNTIME,
}  # the advice is given once, as what would help
_CHEAPER = "selectors that are cheaper to evaluate, or more time: --timeout"


class _Lack(NamedTuple):
    """Why one way to serve a request fails: what it needs, and what is in the way."""

    code: str
    need: str
    detail: str
    help: str
    between: str = ", and "

    @classmethod
    def of(cls, cause: Cause) -> _Lack:
        return cls(cause.code, "", cause.text, cause.help)

    @property
    def cause(self) -> Cause:
        return Cause(self.code, f"{self.need}{self.between}{self.detail}" if self.need else self.detail, self.help)


class ClaimShortage:
    """Claims that no node can serve."""

    def __init__(
        self,
        snapshot: Snapshot,
        claims: Sequence[ResourceClaim],
        verdicts: Sequence[NodeVerdict],
        deadline: float | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._claims = {f"{c.metadata.namespace}/{c.metadata.name}": c for c in claims}
        self._verdicts = verdicts
        self.hardware = Hardware(snapshot.slices, deadline)
        self._taken = snapshot.taken
        self._amounts = Amounts(snapshot, self.hardware)

    # The cause

    def cause(self) -> Cause:
        """Why the claims cannot be served anywhere."""
        allowed = [v for v in self._verdicts if v.may_run] or [*self._verdicts]
        try:
            return self._wrong(allowed) or self._late(allowed) or self._short(allowed)
        except Interrupted:
            return Cause("TimedOut", "why no node can serve its claims takes too long to find out", _CHEAPER)

    def _short(self, verdicts: Iterable[NodeVerdict]) -> Cause:
        """Devices that do not suffice, told of the node that came closest."""
        short = [v.devices for v in verdicts if v.devices is not None]
        if not short:
            return Cause("Unknown", "no node can serve its claims")
        closest = max(short, key=progress)
        if closest.lacking is not None:
            return self._request(closest.lacking, closest)
        if closest.constraints:
            return self._constraint(closest.constraints[0], closest.node)
        if closest.conflict is not None:
            return self._conflict(closest.conflict)
        return Cause("Conflict", f"its requests cannot be served together on {closest.node} or any other node")

    def _late(self, verdicts: Sequence[NodeVerdict]) -> Cause | None:
        """Nodes of which nobody knows in time whether they have devices."""
        late = [v for v in verdicts if v.is_late]
        if not late:
            return None
        at = next((timed_out(v.progress) for v in late if v.progress is not None), say(NodeCode.DEVICES_TIMED_OUT))
        text = f"whether {len(late)} of {len(verdicts)} nodes can serve its claims takes too long to find out: {at}"
        return Cause("TimedOut", text, _CHEAPER)

    def _wrong(self, verdicts: Sequence[NodeVerdict]) -> Cause | None:
        """Input that is wrong: what a selector does comes before what a pool is like."""
        problems = [v.problem for v in verdicts if v.problem is not None]
        if not problems:
            return None
        failing = next((problem for problem in problems if problem.code in SELECTOR_PROBLEMS), None)
        if failing is not None:
            return self._selector_fails(failing)
        first = next((problem for problem in problems if problem.code is InputCode.INVALID_POOLS), problems[0])
        text = input_problem(first)
        match first.code:
            case InputCode.INVALID_POOLS:
                return self._invalid_pools(verdicts)
            case InputCode.POOL_INCOMPLETE | InputCode.POOL_INVALID:
                pool = PoolName(*first.pool.split("/", 1))
                return self._broken_pool([pool]) or Cause("IncompletePool", text)
            case InputCode.CONSTRAINT_REFUSED:
                text = f"it asks for all matching devices, and they do not satisfy its constraint: {text}"
                return Cause("Constraint", text, "a selector that leaves out the devices that differ")
            case InputCode.TOO_MANY_DEVICES:
                return Cause("TooManyDevices", text, "split the claim: one claim gets at most 32 devices")
            case _:
                return Cause("Wrong", text)

    def _invalid_pools(self, verdicts: Sequence[NodeVerdict]) -> Cause:
        """The invalid pool with devices that would do; where there is none, what is the case without those pools."""
        invalid = {name for name, problem in self.hardware.problems.items() if problem.state is PoolState.INVALID}
        asks = [Census(ask, self.hardware, self._taken) for ask in self._asks()]
        suspects = [name for census in asks for name in census.locked_away() if name in invalid]
        cause = self._broken_pool(suspects)
        if cause is not None:
            return cause
        nodes = {verdict.node for verdict in verdicts}
        without = self._snapshot.without_pools(invalid)
        again = judge_devices(without, [*self._claims.values()], self.hardware.deadline)
        return self._short([verdict for verdict in again if verdict.node in nodes])

    def _selector_fails(self, problem: InputProblem) -> Cause:
        text = input_problem(replace(problem, code=_WITHOUT_HINT.get(problem.code, problem.code)))
        for ask in self._asks():
            for expression in (*ask.of_class, *ask.selectors):
                blame = blame_name(expression, self.hardware)
                if blame is not None:
                    return Cause("SelectorFails", f"{text}; {blame.text}", blame.help)
        return Cause(
            "SelectorFails",
            text,
            "guard the access with has(…) or write .?name.orValue(…), since not every device has it",
        )

    def _asks(self) -> list[Ask]:
        return [ask for claim in self._claims.values() for ask in asks_of(claim, self._snapshot.classes).values()]

    def _census(self, claim: str, alternative: str) -> Census:
        ask = asks_of(self._claims[claim], self._snapshot.classes)[alternative]
        return Census(ask, self.hardware, self._taken)

    # One request that lacks devices

    def _request(self, request: RequestReasons, closest: Reasons) -> Cause:
        lacks = [self._alternative(request.claim, a, closest.node) for a in request.alternatives]
        if len(lacks) == 1:
            return lacks[0].cause
        claim = self._claims[request.claim].metadata.name
        names = [a.name.removeprefix(f"{request.request}/") for a in request.alternatives]
        details = "; ".join(f"{name}: {lack.detail}" for name, lack in zip(names, lacks, strict=True))
        text = f"none of the {len(lacks)} alternatives of request {request.request} of claim {claim} can be served: {details}"
        return Cause("AlternativesShort", text, lacks[0].help)

    def _alternative(self, claim: str, reasons: AlternativeReasons, node: str) -> _Lack:
        census = self._census(claim, reasons.name)
        needed = max(reasons.needed, 1)
        locked = census.locked_away()
        if any(count + reasons.available >= needed for count in locked.values()) and not reasons.enough:
            broken = self._broken_pool(locked)
            if broken is not None:
                return _Lack.of(broken)
        lost = reasons.lost_at
        match lost.code:
            case StepCode.PUBLISHED:
                return self._published(census, needed)
            case StepCode.CLASS:
                return self._class(census, reasons, node)
            case StepCode.SELECTOR:
                return self._selector(census, reasons, node, lost.number or 0)
            case StepCode.TOLERATED:
                return self._tainted(census, reasons, node)
            case StepCode.FREE:
                return self._taken_by_others(census, reasons, node)
            case StepCode.COUNTERS | StepCode.CAPACITY if lost.lacking:
                return self._exhausted(census, reasons, node, lost)
            case StepCode.MATCHING | StepCode.DISTINCT:
                return _Lack.of(self._attribute(census, reasons, node))
            case _:
                return self._too_few(census, reasons, node, lost)

    def _published(self, census: Census, needed: int) -> _Lack:
        if not self.hardware.devices:
            helps = "a DRA driver that publishes its devices as ResourceSlices"
            return _Lack("NoDevices", _need(census.ask, needed), "no driver publishes any device", helps)
        best = _best_node(one.node for one in self.hardware.usable)
        lead, detail = f"{_need(census.ask, needed)} on one node", f"no node that it may use has more than {best[1]}"
        return _Lack("TooFewDevices", lead, detail, _more(census.ask, needed - best[1]))

    def _class(self, census: Census, reasons: AlternativeReasons, node: str) -> _Lack:
        ask, usable = census.ask, self.hardware.usable
        if census.of_class:
            return self._too_few(census, reasons, node, reasons.lost_at)
        lead, more = _need(ask, reasons.needed), _more(ask, reasons.needed)
        detail = f"class {ask.class_name} matches none of the {len(usable)} that are published"
        left = usable
        for expression in ask.of_class:
            passed = matching(left, [expression], self.hardware.deadline).passed
            if not passed:
                blame = blame_selector(expression, left, self.hardware)
                return _Lack("ClassMatchesNothing", lead, f"{detail}: {blame.text}", blame.help or more)
            left = passed
        return _Lack("ClassMatchesNothing", lead, detail, more)

    def _selector(self, census: Census, reasons: AlternativeReasons, node: str, number: int) -> _Lack:
        ask = census.ask
        if census.after(number + 1):
            return self._too_few(census, reasons, node, reasons.lost_at)
        before = census.after(number)
        blame = blame_selector(ask.selectors[number], before, self.hardware)
        code = "UnknownAttribute" if blame.unknown else "NoMatch"
        detail = f"selector #{number} matches none of {len(before)}: {blame.text}"
        return _Lack(code, _need(ask, reasons.needed), detail, _advice(blame, ask, reasons.needed))

    def _too_few(self, census: Census, reasons: AlternativeReasons, node: str, lost: DeviceStep) -> _Lack:
        best = lost.devices
        where = f"at most {best} on one node ({node})" if best else "none on a node that it may use"
        lead = f"{_need(census.ask, reasons.needed)} on one node"
        return _Lack("TooFewDevices", lead, f"{where} {condition(lost)}", _more(census.ask, reasons.needed - best))

    def _exhausted(self, census: Census, reasons: AlternativeReasons, node: str, lost: DeviceStep) -> _Lack:
        """Counters or capacity that ran out, and who has them, told of the device that comes closest."""
        short = self._too_few(census, reasons, node, lost)
        told = [amount for amount in lost.lacking if amount.device == lost.lacking[0].device]
        text = f"{short.detail}: {lacking_amounts(told, self._amounts.holders(told))}"
        if told[0].limit is not AmountLimit.LEFT:
            most = " and ".join(f"{amount.left} of {amount.name}" for amount in told)
            return _Lack("CapacityTooLarge", short.need, text, f"ask for at most {most}")
        code = "CountersExhausted" if lost.code is StepCode.COUNTERS else "CapacityExhausted"
        return _Lack(code, short.need, text, short.help)

    def _tainted(self, census: Census, reasons: AlternativeReasons, node: str) -> _Lack:
        taints = census.taints()
        if not taints:
            return self._too_few(census, reasons, node, reasons.lost_at)
        named = ", ".join(_taint(taint) for taint in taints[:3])
        count = f"{len(census.tainted)} of the {len(census.selected)} that match"
        detail = f"{count} are tainted: {named}{self._rule(taints)}"
        helps = f"tolerate {named} in request {census.ask.name}, or remove the taint"
        return _Lack("Tainted", _need(census.ask, reasons.needed), detail, helps)

    def _rule(self, taints: Sequence[DeviceTaint]) -> str:
        keys = {(taint.key, taint.effect) for taint in taints}
        rules = [
            rule.metadata.name
            for rule in self._snapshot.all(DeviceTaintRule)
            if (rule.spec.taint.key, rule.spec.taint.effect) in keys
        ]
        return f", by DeviceTaintRule {', '.join(rules)}" if rules else ""

    def _taken_by_others(self, census: Census, reasons: AlternativeReasons, node: str) -> _Lack:
        ask, needed, best = census.ask, reasons.needed, reasons.available
        if reasons.every:
            lead, helps = (
                f"{ask.label} asks for all {needed} matching devices of a node",
                f"{needed - best} more free on {node}",
            )
            return _Lack("AllTaken", lead, f"at most {best} are free ({node})", f"{helps}; see who holds them below")
        free = census.free
        if len(free) >= needed:
            spread = len({one.node for one in free})
            detail = f"{len(free)} are free, but spread over {spread} nodes, at most {best} on one ({node})"
            return _Lack("Fragmented", f"{_need(ask, needed)} on one node", detail, _more(ask, needed - best), ": ")
        share = f"all {len(census.tolerated)}" if not free else f"{len(census.taken)} of {len(census.tolerated)}"
        rest = "" if not free else f", {len(free)} free"
        detail = f"{share} that match are taken{rest}"
        return _Lack("AllTaken", _need(ask, needed), detail, _more(ask, needed - best))

    def _attribute(self, census: Census, reasons: AlternativeReasons, node: str) -> Cause:
        claim = next(name for name, c in self._claims.items() if c.metadata.name == census.ask.claim)
        attribute = reasons.lost_at.subject
        distinct = reasons.lost_at.code is StepCode.DISTINCT
        found = ConstraintReasons(
            claim, attribute, distinct, (census.ask.name,), reasons.needed, "", reasons.lost_at.devices
        )
        return self._constraint(found, node)

    # Several devices that must agree, or several requests

    def _constraint(self, constraint: ConstraintReasons, node: str) -> Cause:
        claim = self._claims[constraint.claim].metadata.name
        who = f"request{'s' if len(constraint.requests) > 1 else ''} {', '.join(constraint.requests)} of claim {claim}"
        name = constraint.attribute.rpartition("/")[2]
        known = [f"{d}/{n}" for k, d, n in self.hardware.values if k == "attributes"]
        verb = "need" if len(constraint.requests) > 1 else "needs"
        if constraint.attribute not in known:
            meant = alike(constraint.attribute, known) or next((k for k in known if k.endswith(f"/{name}")), "")
            hint = f", did you mean {meant}?" if meant else ""
            text = f"{who} {verb} devices that share {constraint.attribute}, which 0 of {len(self.hardware.devices)} devices have{hint}"
            return Cause("ConstraintAttribute", text, f"write {meant}" if meant else "")
        if constraint.distinct:
            text = (
                f"{who} {verb} {constraint.needed} devices that all differ in {constraint.attribute}: "
                f"at most {constraint.best} values are free on one node ({node})"
            )
        else:
            text = (
                f"{who} {verb} {constraint.needed} devices that share {constraint.attribute}: "
                f"at most {constraint.best} free ones do on one node ({node})"
            )
        kind = "values" if constraint.distinct else "free devices with one value"
        lacking = constraint.needed - constraint.best
        return Cause("Constraint", text, f"{lacking} more {kind} of {constraint.attribute} on one node")

    def _conflict(self, conflict: RequestConflict) -> Cause:
        names = " and ".join(f"{request} of claim {claim.partition('/')[2]}" for claim, request in conflict.requests)
        if len(conflict.requests) == 1:
            return Cause("Constraint", f"request {names} cannot be served within its constraints")
        text = f"requests {names} cannot be served together on one node: "
        if conflict.devices < conflict.needed:
            text += f"they need {conflict.needed} devices and compete for {conflict.devices}"
            return Cause("Conflict", text, f"{conflict.needed - conflict.devices} more devices on one node")
        return Cause("Conflict", text + "each could be served without the others", "separate pods")

    # Pools that cannot be used

    def _broken_pool(self, pools: Iterable[PoolName]) -> Cause | None:
        for name in pools:
            driver, pool = name
            problem = self.hardware.problems.get(name)
            if problem is not None:
                code = "IncompletePool" if problem.state is PoolState.INCOMPLETE else "InvalidPool"
                text = f"pool {pool} of driver {driver} cannot be used: {pool_problem(problem)}"
                return Cause(code, text, f"driver {driver} must publish all slices of pool {pool}, each device once")
        return None

    # Who has the devices

    def holders(self) -> tuple[Holder, ...]:
        """Who holds devices that the claims could have used, the largest first; nobody where that takes too long."""
        try:
            return self._holders()
        except Interrupted:
            return ()

    def _holders(self) -> tuple[Holder, ...]:
        wanted = {one.id: one.node for ask in self._asks() for one in Census(ask, self.hardware, self._taken).taken}
        amounts = self._amounts.holders(self._lacking())
        held: dict[str, list[DeviceId]] = {name: [] for name in amounts}
        claims = {f"{c.metadata.namespace}/{c.metadata.name}": c for c in self._snapshot.all(ResourceClaim)}
        for device, claim in self._snapshot.holders.items():
            if device in wanted:
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
        """The amounts for want of which requests cannot be served, on all nodes that the pod may use."""
        short = [v.devices for v in self._verdicts if v.devices is not None and v.may_run]
        return [
            amount
            for reasons in short
            for request in reasons.requests
            for alternative in request.alternatives
            if not alternative.enough
            for amount in alternative.lost_at.lacking
        ]


def _need(ask: Ask, number: int) -> str:
    return f"{ask.label} needs {number} device{'' if number == 1 else 's'}"


def _more(ask: Ask, number: int) -> str:
    number = max(number, 1)
    thing = ask.thing if number != 1 else ask.thing.replace(" devices", " device", 1)
    return f"{number} more {thing} on one node"


def _advice(blame: Blame, ask: Ask, needed: int) -> str:
    return blame.help if blame.typo else _more(ask, needed)


def _taint(taint: DeviceTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _best_node(nodes: Iterable[str]) -> tuple[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    best = max(counts, key=lambda node: counts[node], default="")
    return best, counts.get(best, 0)
