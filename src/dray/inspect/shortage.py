"""From what all nodes say about devices to the one cause.

The node that came closest names the step at which devices ran out; the census of the whole cluster tells what that means:
nobody has such devices, somebody else has them, or they are spread over too many nodes. Left out: everything that keeps
a pod away from a node for other reasons (`pods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.allocator import AlternativeReasons, DeviceId, Reasons, RequestReasons
from dray.allocator.reasons import Conflict, ConstraintReasons
from dray.api.types.resource import DeviceTaint, DeviceTaintRule, ResourceClaim
from dray.inspect.asking import Ask, Census, asks_of
from dray.inspect.explanation import Cause, Holder, NodeVerdict
from dray.inspect.hardware import Hardware, alike, matching
from dray.inspect.selectors import Blame, blame_name, blame_selector
from dray.inspect.snapshot import Snapshot

_CEL = ("CEL runtime error", "CEL compile error")


class Shortage:
    """Claims that no node can serve."""

    def __init__(self, snapshot: Snapshot, claims: Sequence[ResourceClaim], verdicts: Sequence[NodeVerdict]) -> None:
        self._snapshot = snapshot
        self._claims = {f"{c.metadata.namespace}/{c.metadata.name}": c for c in claims}
        self._verdicts = verdicts
        self.hardware = Hardware(snapshot.slices)
        self._taken: set[DeviceId] = set(snapshot.holders)

    # The cause

    def cause(self) -> Cause:
        """Why the claims cannot be served anywhere."""
        allowed = [v for v in self._verdicts if v.may_run] or [*self._verdicts]
        wrong = self._wrong(allowed)
        if wrong is not None:
            return wrong
        short = [v.reasons for v in allowed if v.reasons is not None]
        if not short:
            return Cause("Unknown", "no node can serve its claims")
        closest = max(short, key=_progress)
        blamed = next((request for request in closest.requests if not request.enough), None)
        if blamed is not None:
            return self._request(blamed, closest)
        if closest.constraints:
            return self._constraint(closest.constraints[0], closest.node)
        if closest.conflict is not None:
            return self._conflict(closest.conflict)
        return Cause("Conflict", f"its requests cannot be served together on {closest.node} or any other node")

    def _wrong(self, verdicts: Iterable[NodeVerdict]) -> Cause | None:
        """Input that is wrong: what a selector does comes before what a pool is like."""
        errors = [v.error for v in verdicts if v.error]
        failing = next((error for error in errors if any(mark in error for mark in _CEL)), None)
        if failing is not None:
            return self._selector_fails(failing)
        invalid = next((error for error in errors if "invalid resource pools" in error), None)
        if invalid is not None:
            return self._broken_pool(self._suspects()) or Cause("InvalidPool", invalid)
        if not errors:
            return None
        if "asks for all devices, but resource pool" in errors[0]:
            return self._broken_pool(self.hardware.problems) or Cause("IncompletePool", errors[0])
        if "a claim constraint would not be satisfied" in errors[0]:
            text = f"it asks for all matching devices, and they do not satisfy its constraint: {errors[0]}"
            return Cause("Constraint", text, "a selector that leaves out the devices that differ")
        code = "TooManyDevices" if "exceeds the claim limit" in errors[0] else "Wrong"
        helps = "split the claim: one claim gets at most 32 devices" if code == "TooManyDevices" else ""
        return Cause(code, errors[0], helps)

    def _selector_fails(self, error: str) -> Cause:
        text = error.partition(". consider using CEL")[0]
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
        causes = [self._alternative(request.claim, a, closest.node) for a in request.alternatives]
        if len(causes) == 1:
            return causes[0]
        claim = self._claims[request.claim].metadata.name
        details = "; ".join(
            f"{a.name.partition('/')[2]}: {c.text.partition(', ')[2] or c.text}"
            for a, c in zip(request.alternatives, causes, strict=True)
        )
        text = f"none of the {len(causes)} alternatives of request {request.request} of claim {claim} can be served: {details}"
        return Cause("AlternativesShort", text, causes[0].help)

    def _alternative(self, claim: str, reasons: AlternativeReasons, node: str) -> Cause:
        census = self._census(claim, reasons.name)
        needed = max(reasons.needed, 1)
        locked = census.locked_away()
        if any(count + reasons.available >= needed for count in locked.values()) and not reasons.enough:
            broken = self._broken_pool(locked)
            if broken is not None:
                return broken
        condition = reasons.lost_at.condition
        if condition == "published":
            return self._published(census, needed)
        if condition.startswith("match class"):
            return self._class(census, reasons, node)
        if condition.startswith("match selector"):
            return self._selector(census, reasons, node, int(condition.rpartition("#")[2]))
        if condition == "tolerated":
            return self._tainted(census, reasons, node)
        if condition == "free":
            return self._taken_by_others(census, reasons, node)
        return self._attribute(census, reasons, node)

    def _published(self, census: Census, needed: int) -> Cause:
        if not self.hardware.devices:
            text = f"{_need(census.ask, needed)}, and no driver publishes any device"
            return Cause("NoDevices", text, "a DRA driver that publishes its devices as ResourceSlices")
        best = _best_node(one.node for one in self.hardware.usable)
        text = f"{_need(census.ask, needed)} on one node, and no node that it may use has more than {best[1]}"
        return Cause("TooFewDevices", text, _more(census.ask, needed - best[1]))

    def _class(self, census: Census, reasons: AlternativeReasons, node: str) -> Cause:
        ask, usable = census.ask, self.hardware.usable
        if census.of_class:
            return self._too_few(census, reasons, node, f"match class {ask.class_name}")
        text = f"{_need(ask, reasons.needed)}, and class {ask.class_name} matches none of the {len(usable)} that are published"
        left = usable
        for expression in ask.of_class:
            passed = matching(left, [expression]).passed
            if not passed:
                blame = blame_selector(expression, left, self.hardware)
                return Cause("ClassMatchesNothing", f"{text}: {blame.text}", blame.help or _more(ask, reasons.needed))
            left = passed
        return Cause("ClassMatchesNothing", text, _more(ask, reasons.needed))

    def _selector(self, census: Census, reasons: AlternativeReasons, node: str, number: int) -> Cause:
        ask = census.ask
        if census.after(number + 1):
            return self._too_few(census, reasons, node, f"match selector #{number}")
        before = census.after(number)
        blame = blame_selector(ask.selectors[number], before, self.hardware)
        code = "UnknownAttribute" if blame.text.partition(" exists on 0")[1] else "NoMatch"
        text = f"{_need(ask, reasons.needed)}, and selector #{number} matches none of {len(before)}: {blame.text}"
        return Cause(code, text, _advice(blame, ask, reasons.needed))

    def _too_few(self, census: Census, reasons: AlternativeReasons, node: str, what: str) -> Cause:
        best = reasons.lost_at.devices
        where = f"at most {best} on one node ({node})" if best else "none on a node that it may use"
        text = f"{_need(census.ask, reasons.needed)} on one node, and {where} {what}"
        return Cause("TooFewDevices", text, _more(census.ask, reasons.needed - best))

    def _tainted(self, census: Census, reasons: AlternativeReasons, node: str) -> Cause:
        taints = census.taints()
        named = ", ".join(_taint(taint) for taint in taints[:3])
        rule = self._rule(taints)
        text = (
            f"{_need(census.ask, reasons.needed)}, and {len(census.tainted)} of the {len(census.selected)} that match "
            f"are tainted: {named}{rule}"
        )
        return Cause("Tainted", text, f"tolerate {named} in request {census.ask.name}, or remove the taint")

    def _rule(self, taints: Sequence[DeviceTaint]) -> str:
        keys = {(taint.key, taint.effect) for taint in taints}
        rules = [
            rule.metadata.name
            for rule in self._snapshot.all(DeviceTaintRule)
            if (rule.spec.taint.key, rule.spec.taint.effect) in keys
        ]
        return f", by DeviceTaintRule {', '.join(rules)}" if rules else ""

    def _taken_by_others(self, census: Census, reasons: AlternativeReasons, node: str) -> Cause:
        ask, needed, best = census.ask, reasons.needed, reasons.available
        if reasons.every:
            text = f"{ask.label} asks for all {needed} matching devices of a node, and at most {best} are free ({node})"
            return Cause("AllTaken", text, f"{needed - best} more free on {node}; see who holds them below")
        free = census.free
        if len(free) >= needed:
            spread = len({one.node for one in free})
            text = (
                f"{_need(ask, needed)} on one node: {len(free)} are free, but spread over {spread} nodes, "
                f"at most {best} on one ({node})"
            )
            return Cause("Fragmented", text, _more(ask, needed - best))
        share = f"all {len(census.tolerated)}" if not free else f"{len(census.taken)} of {len(census.tolerated)}"
        rest = "" if not free else f", {len(free)} free"
        text = f"{_need(ask, needed)}, and {share} that match are taken{rest}"
        return Cause("AllTaken", text, _more(ask, needed - best))

    def _attribute(self, census: Census, reasons: AlternativeReasons, node: str) -> Cause:
        claim = next(name for name, c in self._claims.items() if c.metadata.name == census.ask.claim)
        attribute = reasons.lost_at.condition.rpartition(" ")[2]
        distinct = reasons.lost_at.condition.startswith("differ")
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

    def _conflict(self, conflict: Conflict) -> Cause:
        names = " and ".join(f"{request} of claim {claim.partition('/')[2]}" for claim, request in conflict.requests)
        if len(conflict.requests) == 1:
            return Cause("Constraint", f"request {names} cannot be served within its constraints")
        text = f"requests {names} cannot be served together on one node: "
        if conflict.devices < conflict.needed:
            text += f"they need {conflict.needed} devices and compete for {conflict.devices}"
            return Cause("Conflict", text, f"{conflict.needed - conflict.devices} more devices on one node")
        return Cause("Conflict", text + "each could be served without the others", "separate pods")

    # Pools that cannot be used

    def _suspects(self) -> dict[tuple[str, str], int]:
        """The unusable pools with devices that would do; all of them where none would."""
        found = {
            key: count
            for ask in self._asks()
            for key, count in Census(ask, self.hardware, self._taken).locked_away().items()
        }
        return found or dict.fromkeys(self.hardware.problems, 0)

    def _broken_pool(self, pools: Iterable[tuple[str, str]]) -> Cause | None:
        for driver, pool in pools:
            problem = self.hardware.problems.get((driver, pool))
            if problem is not None:
                code = "IncompletePool" if "slices" in problem and "appears" not in problem else "InvalidPool"
                text = f"pool {pool} of driver {driver} cannot be used: {problem}"
                return Cause(code, text, f"driver {driver} must publish all slices of pool {pool}, each device once")
        return None

    # Who has the devices

    def holders(self) -> tuple[Holder, ...]:
        """Who holds devices that the claims could have used, the largest first."""
        wanted = {one.id: one.node for ask in self._asks() for one in Census(ask, self.hardware, self._taken).taken}
        held: dict[str, list[DeviceId]] = {}
        claims: dict[str, ResourceClaim] = {}
        for device, claim in self._snapshot.holders.items():
            if device in wanted:
                name = f"{claim.metadata.namespace}/{claim.metadata.name}"
                claims[name] = claim
                held.setdefault(name, []).append(device)
        ordered = sorted(held, key=lambda name: (-len(held[name]), name))
        return tuple(
            Holder(
                claim=name,
                devices=tuple(sorted(str(device) for device in held[name])),
                consumers=tuple(f"{r.resource.removesuffix('s')} {r.name}" for r in claims[name].status.reservedFor),
                node=next((wanted[device] for device in held[name] if wanted[device]), ""),
            )
            for name in ordered
        )


def _progress(reasons: Reasons) -> tuple[int, int]:
    """How close a node came: the step at which the first lacking request lost its devices, and what was left."""
    blamed = next((request for request in reasons.requests if not request.enough), None)
    if blamed is None:
        return (1000, 0)
    return max((a.steps.index(a.lost_at), a.lost_at.devices) for a in blamed.alternatives)


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
