"""Builds the pools that one node sees from slices.

Only slices that are visible to the node count, and of those only the newest generation. A generation that is being
replaced is ignored. `dray.api.pools` decides whether a pool is complete and valid. Left out: which devices match a
request, and keeping slices up to date (`index`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.capacity import nanos
from dray.allocator.content import DeviceList
from dray.allocator.identity import GATE_OF, Features
from dray.allocator.layout import Layout, LayoutPart, NodeView, PoolShape
from dray.api.pools import PoolName, newest, problem_of
from dray.api.quantity import Quantity
from dray.api.reasons.devices import PoolState
from dray.api.selectors import node_selector_matches
from dray.api.types.core import Node
from dray.api.types.resource import Device, ResourceSlice, ResourceSliceSpec

ContentOf = Callable[[ResourceSlice], DeviceList]
LayoutOf = Callable[[tuple[PoolShape, ...]], Layout]


class PoolOnNode(NamedTuple):
    """A pool as one node sees it, with one slice for each part of the shape.

    The node cannot reach the devices in the slices `elsewhere`, but they consume the same counters.
    """

    name: PoolName
    shape: PoolShape
    slices: tuple[ResourceSlice, ...] = ()
    elsewhere: tuple[ResourceSlice, ...] = ()


def view(
    node: Node,
    pools: Mapping[PoolName, Sequence[ResourceSlice]],
    content_of: ContentOf,
    layout_of: LayoutOf,
    features: Features,
) -> NodeView:
    """Return all pools that a node sees, in the order of the search. Pools with binding conditions come last."""
    gathered = (gather(name, pools[name], node, content_of, features) for name in sorted(pools))
    found = sorted((pool for pool in gathered if pool is not None), key=lambda pool: pool.shape.binding)
    return NodeView(
        node.metadata.name,
        layout_of(tuple(pool.shape for pool in found)),
        [pool.name for pool in found],
        [slice_ for pool in found for slice_ in pool.slices],
        [pool.elsewhere for pool in found],
    )


def gather(
    name: PoolName, slices: Sequence[ResourceSlice], node: Node, content_of: ContentOf, features: Features
) -> PoolOnNode | None:
    """Return one pool as a node sees it, or None if no current slice of it is visible to the node.

    Also returns None if the visible slices are incomplete and another slice has a newer generation. A pool with a
    problem is returned with its devices in `withheld`.
    """
    reaching = newest(slice_ for slice_ in slices if _understood(slice_, features) and _reaches(slice_, node))
    if not reaching:
        return None
    pool = reaching[0].spec.pool
    if len(reaching) != pool.resourceSliceCount and any(one.spec.pool.generation > pool.generation for one in slices):
        return None
    every = [one for one in slices if one.spec.pool.generation == pool.generation]
    problem = problem_of(reaching, every, counters=features.partitionable_devices)
    offering = tuple(slice_ for slice_ in reaching if not slice_.spec.sharedCounters)
    parts = tuple(LayoutPart(content_of(slice_), _visible(slice_, node)) for slice_ in offering)
    if problem is not None:
        return PoolOnNode(name, PoolShape(problem.state, withheld=parts))
    if not features.compatibility_groups and any(_is_grouped(slice_) for slice_ in every):
        gate = GATE_OF["compatibility_groups"]
        return PoolOnNode(name, PoolShape(PoolState.INCOMPLETE, gate=gate, withheld=parts))
    counters = _counters(reaching)
    shape = PoolShape(
        PoolState.USABLE, parts, counters, features.binding_conditions and any(part.content.binding for part in parts)
    )
    elsewhere = tuple(one for one in every if one.spec.devices and one not in offering) if counters else ()
    return PoolOnNode(name, shape, offering, elsewhere)


def _is_grouped(slice_: ResourceSlice) -> bool:
    """Return whether any device of a slice has compatibility groups."""
    return any(drawn.compatibilityGroups for device in slice_.spec.devices for drawn in device.consumesCounters)


def _understood(slice_: ResourceSlice, features: Features) -> bool:
    spec = slice_.spec
    return features.partitionable_devices or (spec.perDeviceNodeSelection is None and not spec.sharedCounters)


def _counters(slices: Sequence[ResourceSlice]) -> tuple[tuple[str, str, int], ...]:
    """Return the counters of a pool, sorted, as (counter set, counter, value in units of 10^-9)."""
    return tuple(
        sorted(
            (set_.name, name, nanos(Quantity.parse(counter.value)))
            for slice_ in slices
            for set_ in slice_.spec.sharedCounters
            for name, counter in set_.counters.items()
        )
    )


def _reaches(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.sharedCounters:
        return spec.nodeName in (None, "", node.metadata.name)  # counters serve devices wherever those are
    if spec.perDeviceNodeSelection and not (spec.nodeName or spec.allNodes or spec.nodeSelector):
        return any(reaches(device, node) for device in spec.devices)
    return reaches(spec, node)


def reaches(place: ResourceSliceSpec | Device, node: Node) -> bool:
    """Return whether the node selection of a slice or device includes a node.

    Returns False if there is no node name, no `allNodes` and no selector.
    """
    if place.nodeName:
        return place.nodeName == node.metadata.name
    if place.allNodes:
        return True
    selector = place.nodeSelector
    return selector is not None and node_selector_matches(selector, node.metadata.labels, node.metadata.name)


def _visible(slice_: ResourceSlice, node: Node) -> int:
    if not slice_.spec.perDeviceNodeSelection:
        return (1 << len(slice_.spec.devices)) - 1
    return sum(1 << at for at, device in enumerate(slice_.spec.devices) if reaches(device, node))
