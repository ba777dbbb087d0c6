"""Node groups: what can be bought, how much of it, and at which price, read from a YAML file.

A group has a template (`profile`, `node` or `template`), limits, a price an hour and a priority. Everything that is wrong
is told with the place in the file. Left out: how many nodes a group has now (`provider`), and what to buy (`planner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from dray.api import names
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Taint
from dray.api.types.resource import DeviceClass
from dray.api.wire import Wire
from dray.autoscaling.templates import GROUP_LABEL, Template, TemplateError, faults, from_node, from_profile
from dray.sim import forms, profiles
from dray.sim.forms import FormError
from dray.sim.profiles import NodeProfile, ProfileError


class GroupError(ValueError):
    """A file of node groups that cannot be used; says where and why."""


class Expander(StrEnum):
    """What makes one set of nodes better than another."""

    PRICE = "price"
    LEAST_WASTE = "least-waste"
    PRIORITY = "priority"


class AutoscalingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to decide. Times are in seconds, prices by the hour.

    `alternativePrice` is what a step down a request's list of alternatives counts as; with 0 steps only break ties.
    With `preemption`, pods that can preempt less important ones do so and get no node.
    """

    expander: Expander = Expander.PRICE
    alternativePrice: float = 0.0
    provisionSeconds: float = 900.0  # a node on order, or one without its devices, counts with its template so long
    backoffSeconds: float = 300.0  # a group that failed is left alone so long, doubled with each failure in a row
    unneededSeconds: float = 600.0  # a node that is not needed goes after this
    preemption: bool = True


class GroupSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group as it is written."""

    name: str
    max: int
    min: int = 0
    price: float = 0.0
    available: int | None = None
    priority: int = 0
    profile: str = ""
    node: str = ""
    template: NodeProfile | None = None
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    selector: dict[str, str] = {}
    startSeconds: float = 0.0
    publishSeconds: float = 0.0


class GroupsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as it is written."""

    groups: list[GroupSpec]
    settings: AutoscalingSettings = AutoscalingSettings()


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes that are alike. `available` is how many there are to be had, those in use included; None: no fewer than `max`.

    A node belongs to the group when it has the labels of `selector`. Simulated nodes are there `start_seconds` after they
    were ordered, and have devices `publish_seconds` later.
    """

    name: str
    template: Template
    min: int = 0
    max: int = 1
    price: float = 0.0
    available: int | None = None
    priority: int = 0
    selector: dict[str, str] = {}
    start_seconds: float = 0.0
    publish_seconds: float = 0.0

    def has(self, node: Node) -> bool:
        """Whether a node is of this group."""
        return self.is_marked_by(node.metadata.labels)

    def is_marked_by(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are those of a node of this group."""
        return all(labels.get(key) == value for key, value in _membership(self).items())

    def room(self, now: int) -> int:
        """How many nodes may be added to so many."""
        most = self.max if self.available is None else min(self.max, self.available)
        return max(0, most - now)


class NodeGroups(msgspec.Struct, frozen=True):
    """All groups, in the order of the file, and how to choose among them."""

    groups: tuple[NodeGroup, ...]
    settings: AutoscalingSettings = AutoscalingSettings()

    def of(self, node: Node) -> NodeGroup | None:
        """The group that a node belongs to; the first one where several claim it."""
        return next((group for group in self.groups if group.has(node)), None)

    def classes(self, objects: Iterable[Wire]) -> list[DeviceClass]:
        """The classes that profiles bring along and that are not among the objects."""
        known = {one.metadata.name for one in objects if isinstance(one, DeviceClass)}
        brought = {one.metadata.name: one for group in self.groups for one in group.template.classes}
        return [one for name, one in brought.items() if name not in known]


def read(content: str, objects: Sequence[Wire] = (), gates: FeatureGates | None = None) -> NodeGroups:
    """The groups of a file; `objects` has the nodes that templates may copy. Raises GroupError."""
    written = _written(content)
    if not written.groups:
        raise GroupError("groups: expected at least one group")
    durations = "provisionSeconds", "backoffSeconds", "unneededSeconds"
    _check_numbers(written.settings, ("alternativePrice", *durations), "settings")
    made = []
    for number, spec in enumerate(written.groups):
        place = f"groups[{number}] ({spec.name})"
        if any(spec.name == other.name for other in written.groups[:number]):
            raise GroupError(f"{place}: name: another group has this name")
        _check(spec, place)
        try:
            made.append(_group(spec, objects, gates or FeatureGates()))
        except (ProfileError, TemplateError) as error:
            raise GroupError(f"{place}: {error}") from error
        for fault in faults(made[-1].template, gates or FeatureGates()):
            raise GroupError(f"{place}: {fault}")
    return NodeGroups(tuple(made), written.settings)


def _written(content: str) -> GroupsFile:
    try:
        return forms.read(content, GroupsFile)
    except FormError as error:
        raise GroupError(str(error)) from error


def _check(spec: GroupSpec, place: str) -> None:
    if not spec.name:
        raise GroupError(f"{place}: name: expected a name")
    for key, value in (*spec.labels.items(), *_membership(spec).items()):
        for complaint in (*names.qualified_name(key), *names.label_value(value)):
            raise GroupError(f"{place}: label {key}={value}: {complaint}")
    _check_numbers(spec, ("min", "max", "price", "startSeconds", "publishSeconds"), place)
    if spec.available is not None and spec.available < 0:
        raise GroupError(f"{place}: available: expected a number from 0, got {spec.available}")
    if spec.min > spec.max:
        raise GroupError(f"{place}: min {spec.min} is larger than max {spec.max}")
    if spec.available is not None and spec.min > spec.available:
        raise GroupError(f"{place}: min {spec.min} is larger than available {spec.available}")
    sources = [name for name in ("profile", "node", "template") if getattr(spec, name)]
    if len(sources) != 1:
        found = " and ".join(sources) or "none of them"
        raise GroupError(f"{place}: expected one of profile, node and template, got {found}")


def _check_numbers(written: GroupSpec | AutoscalingSettings, fields: Iterable[str], place: str) -> None:
    for field in fields:
        if not 0 <= getattr(written, field) < float("inf"):
            raise GroupError(f"{place}: {field}: expected a number from 0, got {getattr(written, field)}")


def _group(spec: GroupSpec, objects: Sequence[Wire], gates: FeatureGates) -> NodeGroup:
    if spec.node:
        template = from_node(spec.node, objects)
    else:
        template = from_profile(spec.template or profiles.read(spec.profile), spec.name, gates)
    return NodeGroup(
        spec.name,
        template.adorned({**spec.labels, **_membership(spec)}, spec.taints),
        min=spec.min,
        max=spec.max,
        price=spec.price,
        available=spec.available,
        priority=spec.priority,
        selector=spec.selector,
        start_seconds=spec.startSeconds,
        publish_seconds=spec.publishSeconds,
    )


def _membership(spec: GroupSpec | NodeGroup) -> dict[str, str]:
    """The labels by which a node is known to be of a group."""
    return spec.selector or {GROUP_LABEL: spec.name}
