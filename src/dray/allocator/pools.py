"""From slices to pools: which generation counts, whether it is whole, and whether it can be trusted.

Only slices that reach the node take part, and of those only the newest generation. A pool is complete when as many
slices exist as each of them says, counting those for other nodes; one that a newer generation is replacing is ignored.
Left out: which devices match a request; and who keeps slices up to date (`index`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.content import Content
from dray.allocator.layout import Layout, Part, PoolName, PoolShape, PoolState, View
from dray.api.selectors import node_selector_matches
from dray.api.types.core import Node
from dray.api.types.resource import Device, ResourceSlice, ResourceSliceSpec

ContentOf = Callable[[ResourceSlice], Content]
LayoutOf = Callable[[tuple[PoolShape, ...]], Layout]


class Pool(NamedTuple):
    """A pool as one node sees it; the slices belong to the parts of the shape."""

    name: PoolName
    shape: PoolShape
    slices: tuple[ResourceSlice, ...]


def group(slices: Iterable[ResourceSlice]) -> dict[PoolName, list[ResourceSlice]]:
    """Slices by pool, in the order of their names."""
    pools: dict[PoolName, list[ResourceSlice]] = {}
    for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
        pools.setdefault(PoolName(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return pools


def view(
    node: Node, pools: Mapping[PoolName, Sequence[ResourceSlice]], content_of: ContentOf, layout_of: LayoutOf
) -> View:
    """Everything that the node can see, in order."""
    found = [pool for name in sorted(pools) if (pool := gather(name, pools[name], node, content_of)) is not None]
    return View(
        node.metadata.name,
        layout_of(tuple(pool.shape for pool in found)),
        [pool.name for pool in found],
        [slice_ for pool in found for slice_ in pool.slices],
    )


def gather(name: PoolName, slices: Sequence[ResourceSlice], node: Node, content_of: ContentOf) -> Pool | None:
    """One pool as the node sees it; None where no current slice of it reaches the node."""
    reaching = [slice_ for slice_ in slices if _reaches(slice_, node)]
    newest = max((slice_.spec.pool.generation for slice_ in reaching), default=0)
    reaching = [slice_ for slice_ in reaching if slice_.spec.pool.generation == newest]
    if not reaching:
        return None
    expected = reaching[0].spec.pool.resourceSliceCount
    if len(reaching) != expected:
        if any(slice_.spec.pool.generation > newest for slice_ in slices):
            return None
        if sum(slice_.spec.pool.generation == newest for slice_ in slices) != expected:
            return Pool(name, PoolShape(PoolState.INCOMPLETE), ())
    offering = tuple(slice_ for slice_ in reaching if not slice_.spec.sharedCounters)
    names = [device.name for slice_ in offering for device in slice_.spec.devices]
    if len(names) != len(set(names)):
        return Pool(name, PoolShape(PoolState.INVALID), ())
    parts = tuple(Part(content_of(slice_), _visible(slice_, node)) for slice_ in offering)
    return Pool(name, PoolShape(PoolState.USABLE, parts), offering)


def _reaches(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.sharedCounters:
        return True  # counters are needed to use a pool from wherever its devices are
    if spec.perDeviceNodeSelection and not (spec.nodeName or spec.allNodes or spec.nodeSelector):
        return any(reaches(device, node) for device in spec.devices)
    return reaches(spec, node)


def reaches(place: ResourceSliceSpec | Device, node: Node) -> bool:
    """Whether what a slice or a device says about nodes includes this one."""
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
