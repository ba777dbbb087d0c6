"""Planning for pods that depend on other nodes: on pods there (spreading, affinity), or on devices that nodes share.

A single node does not decide about such pods, so they are tried in the whole cluster one by one, like the scheduler
does: on existing nodes, otherwise with a new node of each group in turn. For few units, all choices of nodes are
compared; for many, the node with the lowest cost per unit is taken. `carry_out` applies a plan for independent nodes
to the whole cluster and finds the pods for which that fails. Left out: why groups do not help (`assignment`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from dray.api.naming import name_of
from dray.api.reasons.nodes import NodeVerdict
from dray.api.selectors import label_selector
from dray.api.types.core import Pod, PodAffinityTerm, PodSpec
from dray.autoscaling.cost_model import CostModel
from dray.autoscaling.demand import Demand, PodKind, Unit
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.packings import Packings
from dray.autoscaling.plans import PlannedNode, PlannedPod
from dray.autoscaling.trial import ClusterTemplate, add_node, placed, steps_taken, withdraw
from dray.sim.cluster import Cluster
from dray.sim.copies import is_daemon
from dray.sim.what_if import outcomes

EXACT_UNITS = 12  # limit of units for which choices of nodes are compared; beyond, the first choice is kept
_EFFORT = 1_500  # limit of placements when comparing choices
_HOSTNAME = "kubernetes.io/hostname"
KindOfUnit = tuple[int, Unit]  # number of the kind, and the unit
Choices = tuple[int | None, ...]  # for each unit the group of the node bought for it, or None


def minds_others(unit: Unit) -> bool:
    """Whether pods on other nodes can prevent or enable the placement of a unit on a node."""
    return any(_minds_others(pod.spec) for pod in unit.pods)


def _minds_others(spec: PodSpec) -> bool:
    affinity = spec.affinity
    near = affinity.podAffinity if affinity is not None else None
    if near is not None and near.requiredDuringSchedulingIgnoredDuringExecution:
        return True
    spread = spec.topologySpreadConstraints
    return bool(_repelling(spec)) or any(one.whenUnsatisfiable == "DoNotSchedule" for one in spread)


def _repelling(spec: PodSpec) -> list[PodAffinityTerm]:
    """Return the required anti-affinity terms of a pod for topologies larger than a node."""
    away = spec.affinity.podAntiAffinity if spec.affinity is not None else None
    terms = away.requiredDuringSchedulingIgnoredDuringExecution if away is not None else ()
    return [term for term in terms if term.topologyKey != _HOSTNAME]


def suspects(cluster: Cluster, kinds: Sequence[PodKind], packings: Sequence[Packings]) -> frozenset[str]:
    """Return the pods that may be linked.

    They can use devices that nodes share, or another pod's anti-affinity matches them.
    """
    terms = [term.labelSelector for pod in cluster.all(Pod) for term in _repelling(pod.spec)]
    different = {msgspec.json.encode(one): one for one in terms if one is not None}.values()
    selectors = [label_selector(one) for one in different]
    return frozenset(
        name
        for number, kind in enumerate(kinds)
        if any(own.reaches[number] for own in packings)
        or any(selector.matches(pod.metadata.labels) for selector in selectors for pod in kind.first.pods)
        for name in kind.pods
    )


def carry_out(
    cluster: Cluster, groups: NodeGroups, base: ClusterTemplate, nodes: Sequence[PlannedNode], demand: Demand
) -> tuple[tuple[PlannedNode, ...], frozenset[str]]:
    """Place the units of planned nodes in the whole cluster.

    Returns the nodes with actual devices, and the refused pods. Refused pods are returned by name. The cluster is
    unchanged afterwards.
    """
    units = {name_of(unit.pods[0]): unit for kind in demand.kinds for unit in kind.units}
    with cluster.fork() as trial:
        withdraw(trial, *units.values())
        for node in nodes:
            add_node(trial, groups, node.name, node.group, base)
        trial.settle()
        left = {node.name: [units[pod.pod] for pod in node.pods if pod.pod in units] for node in nodes}
        while sum(_next_on(trial, name, there) for name, there in left.items()):
            pass  # a refused unit may fit after units of another node
        trial.among = None
        found = tuple(planned_node(trial, node.name, node.group) for node in nodes)
    return found, frozenset(name_of(pod) for there in left.values() for unit in there for pod in unit.pods)


def _next_on(trial: Cluster, node: str, units: list[Unit]) -> bool:
    """Place the next units of a node as far as they fit. Returns whether any unit was placed."""
    info = trial.model.state.table.get(node)
    assert info is not None  # the node was added before
    trial.among = 1 << info.position
    before = len(units)
    while units and placed(trial, units[0]):
        units.pop(0)
    if units:
        withdraw(trial, units[0])
    return len(units) < before


class Bought(msgspec.Struct, frozen=True):
    """Nodes bought for linked units. If `proven`, no other choice of nodes is cheaper.

    By kind: `able` has the groups whose nodes took a unit, `left` the units without a place.
    """

    nodes: tuple[PlannedNode, ...] = ()
    able: Mapping[int, frozenset[int]] = {}
    left: Mapping[int, tuple[Unit, ...]] = {}
    proven: bool = True


class LinkedPlanner:
    """Buys nodes for units that depend on other nodes, in a cluster without other waiting pods."""

    def __init__(
        self,
        trial: Cluster,
        groups: NodeGroups,
        base: ClusterTemplate,
        model: CostModel,
        rooms: Sequence[int],
        named: Mapping[str, int],
    ) -> None:
        self._trial = trial
        self._groups = groups
        self._base = base
        self._model = model
        self._rooms = rooms
        self._named = named
        self._bought: list[int] = []  # groups of the added nodes
        self._able: dict[int, set[int]] = {}
        self._effort = 0
        self._order: Sequence[KindOfUnit] = ()  # best order of units so far
        self._best: Choices = ()
        self._cost = float("inf")

    def buy(self, kinds: Sequence[PodKind]) -> Bought:
        """Buy nodes for the kinds and place their units like the scheduler. Returns the nodes and the units left."""
        order: Sequence[KindOfUnit] = [(number, unit) for number, kind in enumerate(kinds) for unit in kind.units]
        compares = len(order) <= EXACT_UNITS
        if compares:
            unplaced = self._model.unplaced([len(kind.units) for kind in kinds])
            for blocks in itertools.permutations(enumerate(kinds)):
                self._branch([(number, unit) for number, kind in blocks for unit in kind.units], (), 0.0, unplaced)
            order = self._order
        left = self._walk(order, dict(enumerate(self._best)))
        proven = compares and len(kinds) == 1 and not self._is_over  # other orders that mix kinds were not tried
        while left and len(again := self._walk(left, {})) < len(left):
            left, proven = again, False  # later placements made these possible
        return Bought(
            tuple(self._node(at) for at in range(len(self._bought))),
            {kind: frozenset(groups) for kind, groups in self._able.items()},
            {kind: tuple(unit for other, unit in left if other == kind) for kind, _ in left},
            proven,
        )

    def refuses(self, group: int, unit: Unit) -> NodeVerdict | None:
        """Return the verdict of a new node of a group for a unit; None if the unit fits or the group has no room."""
        if not self._has_room(group):
            return None
        with self._trial.fork() as trial:
            name = self._add(group)
            fits = placed(trial, unit)
            self._bought.pop()
            found = [trial.current(pod) for pod in unit.pods]
            waits = next((pod for pod in found if pod is not None and not pod.spec.nodeName), None)
            if fits or waits is None:
                return None
            return next((one for one in trial.verdicts(waits) if one.node == name and not one.fits), None)

    @property
    def _is_over(self) -> bool:
        return self._effort > _EFFORT or self._model.is_over

    def _has_room(self, group: int) -> bool:
        return self._bought.count(group) < self._rooms[group]

    def _name(self, at: int) -> str:
        group = self._groups.groups[self._bought[at]].name
        return f"{group}-new-{self._named.get(group, 0) + self._bought[: at + 1].count(self._bought[at])}"

    def _add(self, group: int) -> str:
        """Add a node of a group and place its daemons. Returns its name."""
        self._bought.append(group)
        name = self._name(len(self._bought) - 1)
        add_node(self._trial, self._groups, name, self._groups.groups[group].name, self._base)
        self._trial.settle()  # place its daemons first
        return name

    def _placed_with(self, group: int, kind: int, unit: Unit) -> bool:
        """Add a node of a group and submit a unit. Returns whether the unit was placed."""
        self._effort += 1
        self._add(group)
        if not placed(self._trial, unit):
            return False
        self._able.setdefault(kind, set()).add(group)
        return True

    def _candidates(self, kind: int, units: int) -> list[int]:
        """Return the groups with room, lowest cost per unit of the kind first.

        Groups and `kind` are indexes. `units` is the number of units that are to be placed.
        """

        def share(group: int) -> float:
            most = self._model.packings[group].most[kind]
            return self._model.costs.nodes[group] / max(1, min(most, units))

        return sorted((group for group in range(len(self._rooms)) if self._has_room(group)), key=share)

    # -- comparing choices of nodes

    def _branch(self, units: Sequence[KindOfUnit], chosen: Choices, spent: float, unplaced: Sequence[float]) -> None:
        """Try all choices of nodes for the remaining units and keep the cheapest."""
        if spent >= self._cost - self._model.costs.tie * 1e-2 or (self._is_over and self._best):
            return
        if len(chosen) == len(units):
            self._order, self._best, self._cost = units, chosen, spent
            return
        self._effort += 1
        kind, unit = units[len(chosen)]
        with self._trial.fork() as trial:
            if placed(trial, unit):
                self._branch(units, (*chosen, None), spent + self._step_costs(unit), unplaced)
                return
        alike = sum(other == kind for other, _ in units[len(chosen) :])
        for group in self._candidates(kind, alike):
            with self._trial.fork():
                if self._placed_with(group, kind, unit):
                    cost = self._model.costs.nodes[group] + self._step_costs(unit)
                    self._branch(units, (*chosen, group), spent + cost, unplaced)
            self._bought.pop()
        self._branch(units, (*chosen, None), spent + unplaced[kind], unplaced)

    def _step_costs(self, unit: Unit) -> float:
        return self._model.costs.step * steps_taken(self._trial, unit)

    # -- buying

    def _walk(self, units: Sequence[KindOfUnit], chosen: Mapping[int, int | None]) -> list[KindOfUnit]:
        """Place units in order with the chosen nodes, or else with the first group that helps.

        Returns the units left.
        """
        left: list[KindOfUnit] = []
        hopeless: set[int] = set()  # kinds that no new node helps
        for at, (kind, unit) in enumerate(units):
            if kind not in hopeless and placed(self._trial, unit):
                continue
            withdraw(self._trial, unit)
            group = None if kind in hopeless else self._choice(units, at, chosen)
            if group is None:
                left.append((kind, unit))
                hopeless |= set() if chosen else {kind}
            else:
                self._placed_with(group, kind, unit)
        return left

    def _choice(self, units: Sequence[KindOfUnit], at: int, chosen: Mapping[int, int | None]) -> int | None:
        """Return the group of the node to buy for a unit without a place, or None.

        `at` is an index of `units`. `chosen` gives the answer if it is not empty.
        """
        if chosen:
            return chosen[at]
        kind, unit = units[at]
        alike = sum(other == kind for other, _ in units[at:])
        for group in self._candidates(kind, alike):
            with self._trial.fork():
                helps = self._placed_with(group, kind, unit)
            self._bought.pop()
            if helps:
                return group
        return None

    def _node(self, at: int) -> PlannedNode:
        """Return a bought node with its pods, without daemons.

        `at` is the number of the purchase.
        """
        name, group = self._name(at), self._groups.groups[self._bought[at]].name
        return planned_node(self._trial, name, group)


def planned_node(cluster: Cluster, name: str, group: str) -> PlannedNode:
    """Return a node of a cluster as part of a plan: its pods with their devices, without daemons.

    `name` is the name of the node, `group` that of its group.
    """
    there = [pod for pod in cluster.pods_on(name) if not is_daemon(pod)]
    pods = tuple(PlannedPod(one.pod, one.devices) for one in outcomes(cluster, there))
    return PlannedNode(name, group, pods, steps_taken(cluster, Unit(tuple(there))))
