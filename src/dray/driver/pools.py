"""Pools of devices as a driver author describes them, and their conversion to ResourceSlices. Pure.

`device` turns plain Python values into the API's attributes and capacities. `specs` splits a pool into slices that
the API server accepts; devices keep the author's order, since the scheduler prefers earlier ones. Left out:
generations and writing (`plan`, `publisher`); the API server checks names and values and reports errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api.kinds.resource_slice import ADVANCED_DEVICES_MAX, COUNTER_SETS_MAX, DEVICES_MAX
from dray.api.wire import Tree

# An object is stored in etcd, which accepts 1.5 MiB per request; half of that leaves room for metadata.
SLICE_BYTES_MAX = 768 * 1024
_LISTS = ("bools", "ints", "strings", "versions")


class Version(str):
    """A semantic version as the value of an attribute; a plain string would become a string attribute."""


Scalar = bool | int | str | Version
AnyAttributeValue = Scalar | Sequence[Scalar]


@dataclass(frozen=True)
class Pool:
    """Devices that are reached from the same place: the driver's own node, unless another field names the place.

    A pool with `all_nodes` or `node_selector` is network-attached: nodes can use it, none of them owns it.
    """

    devices: Sequence[Tree] = ()
    all_nodes: bool = False
    node_selector: Tree | None = None
    per_device_nodes: bool = False  # each device has its own nodeName, nodeSelector or allNodes
    shared_counters: Sequence[Tree] = ()

    @property
    def is_local(self) -> bool:
        return not (self.all_nodes or self.node_selector is not None or self.per_device_nodes)

    def find(self, device: str) -> Tree | None:
        """Return the device with this name in its published form, or None.

        `device` is the device's name.
        """
        return next((known for known in self.devices if known.get("name") == device), None)


Pools = Mapping[str, Pool]
"""Pools by name."""


def device(
    name: str,
    attributes: Mapping[str, AnyAttributeValue] | None = None,
    capacity: Mapping[str, str | int | Tree] | None = None,
    **fields: Any,
) -> Tree:
    """Return a device in the API's form; `fields` are further fields of the API's Device, such as `taints=[…]`."""
    tree: Tree = {"name": name, **fields}
    if attributes:
        tree["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        tree["capacity"] = {
            key: value if isinstance(value, dict) else {"value": str(value)} for key, value in capacity.items()
        }
    return tree


def attribute(value: AnyAttributeValue) -> Tree:
    """Return an attribute value in the API's form, a map from the type's name to the value.

    A sequence becomes a list attribute. Raises TypeError for other types, an empty list, and a list of several types.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        return {_type_name(value): _plain(value)}
    values = [*value]
    names = {_type_name(item) for item in values}
    if len(names) != 1:
        raise TypeError(f"a list attribute needs at least one value, all of one type: {values!r}")
    return {f"{names.pop()}s": [_plain(item) for item in values]}


def _plain(value: Scalar) -> Scalar:
    return str(value) if isinstance(value, Version) else value


def _type_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case Version():
            return "version"
        case str():
            return "string"
    raise TypeError(f"an attribute is a bool, an int, a str or a Version, not {value!r}")


# Slices


def specs(driver: str, node: str, name: str, pool: Pool) -> list[Tree]:
    """Return the specs of a pool's slices, complete except for the generation.

    A pool without devices still has one slice, which shows that the driver runs and has no devices.
    """
    parts = [{"sharedCounters": [*chunk]} for chunk in _counter_chunks(pool)]
    parts += [{"devices": chunk} for chunk in _chunks(pool.devices)]
    parts = parts or [{"devices": []}]
    place = _place(node, pool)
    return [
        {"driver": driver, "pool": {"name": name, "resourceSliceCount": len(parts)}, **place, **part} for part in parts
    ]


def _place(node: str, pool: Pool) -> Tree:
    if pool.per_device_nodes:
        return {"perDeviceNodeSelection": True}
    if pool.all_nodes:
        return {"allNodes": True}
    if pool.node_selector is not None:
        return {"nodeSelector": pool.node_selector}
    return {"nodeName": node}


def _counter_chunks(pool: Pool) -> Iterator[Sequence[Tree]]:
    for start in range(0, len(pool.shared_counters), COUNTER_SETS_MAX):
        yield pool.shared_counters[start : start + COUNTER_SETS_MAX]


def _chunks(devices: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Yield the devices of each slice. Each slice is filled up to the limits of devices and bytes.

    The limit is lower for a slice with a device that has taints, consumes counters or lists values. No slice is
    empty.
    """
    chunk: list[Tree] = []
    size, advanced = 0, False
    for one in devices:
        bytes_ = len(msgspec.json.encode(one)) + 1
        now_advanced = advanced or _is_advanced(one)
        limit = ADVANCED_DEVICES_MAX if now_advanced else DEVICES_MAX
        if chunk and (len(chunk) >= limit or size + bytes_ > SLICE_BYTES_MAX):
            yield chunk
            chunk, size, now_advanced = [], 0, _is_advanced(one)
        chunk.append(one)
        size, advanced = size + bytes_, now_advanced
    if chunk:
        yield chunk


def _is_advanced(one: Tree) -> bool:
    """Whether a device costs the scheduler more than others, so that fewer of them fit into a slice.

    Applies to devices that have taints, consume counters, or have attributes with lists.
    """
    attributes: Mapping[str, Tree] = one.get("attributes") or {}
    return bool(one.get("taints") or one.get("consumesCounters")) or any(
        value.get(field) for value in attributes.values() for field in _LISTS
    )
