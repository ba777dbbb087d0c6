"""Node groups read from a YAML file: which nodes can be bought, how many, and at which price.

A group has a template (`profile`, `node` or `template`), limits, an hourly price and a priority. Every error names
its place in the file. Left out: current sizes (`provider`) and decisions (`planner`).
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
    """An unusable file of node groups. The message says where and why."""


class Expander(StrEnum):
    """Measure by which sets of nodes are compared."""

    PRICE = "price"
    LEAST_WASTE = "least-waste"
    PRIORITY = "priority"


class AutoscalingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for decisions. Times are in seconds, prices per hour.

    `alternativePrice` is the cost of a fallback step to a lower-ranked alternative; with 0, steps only break ties.
    With
    `preemption`, pods that can preempt less important pods do so and get no node.
    """

    expander: Expander = Expander.PRICE
    alternativePrice: float = 0.0
    provisionSeconds: float = 900.0  # how long an ordered node, or a node without its devices, counts as its template
    backoffSeconds: float = 300.0  # how long a failed group is closed, doubled with each consecutive failure
    unneededSeconds: float = 600.0  # how long a node must be unneeded before removal
    preemption: bool = True


class GroupSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group as written in the file."""

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
    """The file as written."""

    groups: list[GroupSpec]
    settings: AutoscalingSettings = AutoscalingSettings()


class NodeGroup(msgspec.Struct, frozen=True):
    """Group of equal nodes.

    `available` limits the total number of nodes, including existing ones; None means no limit beyond `max`. A node
    belongs to
    the group if it has the labels of `selector`. Simulated nodes appear `start_seconds` after they were ordered and
    have devices
    `publish_seconds` later.
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
        """Whether a node belongs to this group."""
        return self.is_marked_by(node.metadata.labels)

    def is_marked_by(self, labels: Mapping[str, str]) -> bool:
        """Whether these are labels of a node of this group."""
        return all(labels.get(key) == value for key, value in _membership(self).items())

    def room(self, now: int) -> int:
        """Return how many nodes may be added if the group has `now` nodes.

        Neither the maximum nor the available number of nodes is exceeded. Never negative.
        """
        most = self.max if self.available is None else min(self.max, self.available)
        return max(0, most - now)


class NodeGroups(msgspec.Struct, frozen=True):
    """All groups in the order of the file, with the settings."""

    groups: tuple[NodeGroup, ...]
    settings: AutoscalingSettings = AutoscalingSettings()

    def of(self, node: Node) -> NodeGroup | None:
        """Return the first group that a node belongs to, or None."""
        return next((group for group in self.groups if group.has(node)), None)

    def classes(self, objects: Iterable[Wire]) -> list[DeviceClass]:
        """Return the device classes of profiles that are not among the objects."""
        known = {one.metadata.name for one in objects if isinstance(one, DeviceClass)}
        brought = {one.metadata.name: one for group in self.groups for one in group.template.classes}
        return [one for name, one in brought.items() if name not in known]


def read(content: str, objects: Sequence[Wire] = (), gates: FeatureGates | None = None) -> NodeGroups:
    """Read the groups of a file. `objects` contains the nodes that templates may copy. Raises GroupError."""
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
    """Parse the file.

    Raises GroupError if the content is no YAML or has wrong fields.
    """
    try:
        return forms.read(content, GroupsFile)
    except FormError as error:
        raise GroupError(str(error)) from error


def _check(spec: GroupSpec, place: str) -> None:
    """Raise GroupError if a field of the group is invalid.

    `place` names the group in the message.
    """
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
    """Raise GroupError if one of the fields is negative or infinite.

    `fields` are names of fields, `place` names the object in the message.
    """
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
    """Return the labels that identify nodes of a group.

    This is the group's selector, or a label with its name if it has none.
    """
    return spec.selector or {GROUP_LABEL: spec.name}
