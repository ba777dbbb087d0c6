"""Converts purchases to a plan: which pod gets which new node and devices, and why other pods get none. No I/O.

Units of a kind take the places of their kind in order, so earlier units are served first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from dray.api.naming import name_of
from dray.api.reasons.autoscaling import NoHelp
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeVerdict, SchedulingRule
from dray.autoscaling.cost_model import NodePurchase
from dray.autoscaling.demand import PodKind, Unit
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.linked import EXACT_UNITS, Bought
from dray.autoscaling.packings import Packings
from dray.autoscaling.plans import GroupRefusal, PlannedNode, PlannedPod, ScaleUpPlan, Served, Unhelped
from dray.autoscaling.trial import Filled
from dray.sim.what_if import DeviceUse

_EXPLAINED = 500  # limit of kinds times groups up to which refusals by other groups are explained for served pods


class PlanningTask(msgspec.Struct, frozen=True):
    """Input of planning.

    By kind: `reachable` units can get network-attached devices, and `wanted` of them can be served by groups.
    """

    kinds: tuple[PodKind, ...]
    packings: Sequence[Packings]
    rooms: tuple[int, ...]
    reachable: tuple[int, ...]
    wanted: tuple[int, ...]
    closed: frozenset[str]

    @property
    def sharing(self) -> frozenset[str]:
        """Pods that compete for network-attached devices, if few enough to try all choices; otherwise empty.

        They are given by name.
        """
        users = [kind for number, kind in enumerate(self.kinds) if any(own.reaches[number] for own in self.packings)]
        if sum(len(kind.units) for kind in users) > EXACT_UNITS:
            return frozenset()
        return frozenset(name for kind in users for name in kind.pods)

    @property
    def is_short(self) -> bool:
        """Whether network-attached devices do not suffice for all units."""
        return any(much < len(kind.units) for much, kind in zip(self.reachable, self.kinds, strict=True))

    @property
    def most_steps(self) -> int:
        """Upper bound for the fallback steps of all units to lower-ranked alternatives."""
        return sum(_most_steps(kind.first) * len(kind.units) for kind in self.kinds)


def assign(
    task: PlanningTask, purchases: Iterable[NodePurchase], groups: NodeGroups, first: Mapping[str, int]
) -> ScaleUpPlan:
    """Convert purchases to planned nodes with pods and names, without costs.

    `first` is the number of names already used by group.
    """
    names = {group.name: first.get(group.name, 0) + 1 for group in groups.groups}
    taken = [0] * len(task.kinds)
    nodes = []
    for one in sorted(purchases, key=lambda one: one.group):
        own = task.packings[one.group]
        for _ in range(one.times):
            name = f"{own.group.name}-new-{names[own.group.name]}"
            names[own.group.name] += 1
            nodes.append(_node(task.kinds, own, one, name, taken))
    numbers = range(len(task.kinds))
    refused = [_unhelped(task, number, taken[number]) for number in numbers]
    explained = numbers if len(numbers) * len(task.packings) <= _EXPLAINED else ()
    return ScaleUpPlan(
        tuple(nodes),
        tuple(_served(task, number, taken[number]) for number in explained if taken[number]),
        tuple(one for one in refused if one is not None),
        useless=tuple(own.group.name for own in task.packings if not any(own.most)),
    )


def tell_linked(task: PlanningTask, bought: Bought, refuses: Callable[[int, Unit], NodeVerdict | None]) -> ScaleUpPlan:
    """Return the plan for linked kinds, without costs.

    `refuses` returns the verdict of a new node of a group for a unit.
    """
    served, unhelped, helpful = [], [], set()
    for number, kind in enumerate(task.kinds):
        left = bought.left.get(number, ())
        names = {name_of(pod) for unit in left for pod in unit.pods}
        able = [
            own.group.name
            for at, own in enumerate(task.packings)
            if own.most[number] or at in bought.able.get(number, ())
        ]
        helpful |= {*able}
        if len(names) < len(kind.pods):
            served.append(Served(tuple(name for name in kind.pods if name not in names), tuple(able)))
        if left:
            whys = [_linked_refusal(task, at, number, refuses(at, left[0])) for at in range(len(task.packings))]
            unhelped.append(Unhelped(tuple(name for name in kind.pods if name in names), tuple(whys)))
    useless = tuple(own.group.name for own in task.packings if own.group.name not in helpful)
    return ScaleUpPlan(bought.nodes, tuple(served), tuple(unhelped), useless=useless)


def _linked_refusal(task: PlanningTask, at: int, number: int, said: NodeVerdict | None) -> GroupRefusal:
    """Return why a group does not help a linked kind."""
    own = task.packings[at]
    if said is None:
        return GroupRefusal(own.group.name, NoHelp.CLOSED if own.group.name in task.closed else NoHelp.NO_ROOM)
    by_devices = any(reason.rule is SchedulingRule.DYNAMIC_RESOURCES for reason in said.reasons)
    if own.most[number] and by_devices:
        return GroupRefusal(own.group.name, NoHelp.NETWORK)
    return GroupRefusal(own.group.name, NoHelp.REFUSED, verdict=said)


def _served(task: PlanningTask, number: int, served: int) -> Served:
    """Return which groups fit the first units of a kind, and why others do not."""
    kind = task.kinds[number]
    pods = tuple(name_of(pod) for unit in kind.units[:served] for pod in unit.pods)
    able = tuple(own.group.name for own in task.packings if own.most[number])
    others = (own for own in task.packings if not own.most[number])
    return Served(pods, able, tuple(_refusal(task, own, number, kind) for own in others))


def _node(kinds: Sequence[PodKind], own: Packings, one: NodePurchase, name: str, taken: list[int]) -> PlannedNode:
    """Return the planned node for one purchase, assigning the next units of each kind."""
    filled = own.filled(one.packing)
    assert filled is not None  # only possible packings are bought
    order = {outcome.pod: place for place, outcome in enumerate(filled.outcomes)}
    units: list[tuple[int, Unit, Unit]] = []
    for kind, count in one.packing:
        places = zip(kinds[kind].units[:count], kinds[kind].units[taken[kind] :], strict=False)
        units += [(order[name_of(model.pods[0])], model, unit) for model, unit in places]
        taken[kind] += count
    units.sort(key=lambda each: each[0])  # in the order in which they fit
    pods = [pod for _, model, unit in units for pod in _pods(own, filled, model, unit, name)]
    return PlannedNode(name, own.group.name, tuple(pods), filled.steps)


def _pods(own: Packings, filled: Filled, model: Unit, unit: Unit, node: str) -> Iterable[PlannedPod]:
    """Yield the pods of a unit, with the devices that the tried unit got in their place."""
    claims = {old.metadata.name: new.metadata.name for old, new in zip(model.claims, unit.claims, strict=True)}
    found = {outcome.pod: outcome.devices for outcome in filled.outcomes}

    def here(use: DeviceUse) -> DeviceUse:
        device = use.device
        if own.trial.brings(device):
            device = device._replace(pool=device.pool.replace(own.trial.name, node))
        return DeviceUse(claims.get(use.claim, use.claim), use.request, device)

    for old, new in zip(model.pods, unit.pods, strict=True):
        yield PlannedPod(name_of(new), tuple(here(use) for use in found[name_of(old)]))


def _unhelped(task: PlanningTask, number: int, served: int) -> Unhelped | None:
    """Return the pods of a kind without a node and the reasons, or None if all are served.

    `number` is the index of the kind, `served` the number of its units with a node.
    """
    kind = task.kinds[number]
    left = kind.units[served:]
    if not left:
        return None
    pods = tuple(name_of(pod) for unit in left for pod in unit.pods)
    return Unhelped(pods, tuple(_refusal(task, own, number, kind) for own in task.packings))


def _refusal(task: PlanningTask, own: Packings, number: int, kind: PodKind) -> GroupRefusal:
    """Return why a group does not help a kind."""
    group = own.group.name
    if not own.most[number]:
        why = own.trial.why_not(kind.first)
        if isinstance(why, ClaimProblem):
            return GroupRefusal(group, NoHelp.REFUSED, problem=why)
        return GroupRefusal(group, NoHelp.REFUSED, verdict=why)
    if group in task.closed:
        return GroupRefusal(group, NoHelp.CLOSED)
    is_short = task.reachable[number] < len(kind.units)
    return GroupRefusal(group, NoHelp.NETWORK if is_short else NoHelp.NO_ROOM)


def _most_steps(unit: Unit) -> int:
    """Return the largest number of fallback steps that a unit's requests can take."""
    requests = (request for claim in unit.claims for request in claim.spec.devices.requests or ())
    return sum(max(0, len(request.firstAvailable) - 1) for request in requests)
