"""The devices of a slice without the names that place them, and what is true of each: computed once, shared by all.

Five hundred nodes with the same hardware publish slices that differ in pool and node only. `Content` is what they have
in common, so that selectors run once for all of them. Every answer is a bit set over the positions in the slice.
Left out: which pools and nodes the devices belong to (`layout`, `pools`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.bits import position, positions
from dray.allocator.taints import intolerable
from dray.api.types.resource import Device, DeviceAttribute, DeviceToleration, ResourceSlice
from dray.cel import DeviceView, EvaluationError, Interrupted, compile_selector

Value = tuple[str, object]


class SelectorError(NamedTuple):
    """Selector number `selector` could not be evaluated."""

    selector: int
    text: str
    compile: bool


class Match(NamedTuple):
    """Devices that pass every selector, and devices on which one of them fails with an error."""

    devices: int
    errors: int
    causes: dict[int, SelectorError]


class _Progress:
    """How far some selectors have come: devices still to be judged, and what is known of the others."""

    __slots__ = ("causes", "failed", "left", "matched")

    def __init__(self, left: int, errors: int, causes: dict[int, SelectorError]) -> None:
        self.left = left
        self.matched = 0
        self.failed = errors
        self.causes = causes


class Content:
    """Devices of one driver in their order. Equal content should be one object, as it is in `inventory`."""

    __slots__ = (
        "__weakref__",
        "_begun",
        "_kept",
        "_matched_before",
        "_matches",
        "_places",
        "_tolerated",
        "_values",
        "_views",
        "devices",
        "driver",
        "everything",
    )

    def __init__(self, driver: str, devices: Sequence[Device], before: Content | None = None) -> None:
        """`before` is what a slice held until now: most devices are as they were, and so is what is true of them."""
        self.driver = driver
        self.devices = tuple(devices)
        self.everything = (1 << len(devices)) - 1
        self._places: dict[str, int] | None = None
        self._views: list[DeviceView | None] = [None] * len(devices)
        self._matches: dict[tuple[str, ...], Match] = {}
        self._begun: dict[tuple[str, ...], _Progress] = {}  # selectors that were interrupted
        self._kept: list[tuple[int, int]] = []  # positions now and before of devices that are as they were
        self._matched_before: dict[tuple[str, ...], Match] = {}
        self._values: dict[str, dict[Value, int]] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], int] = {}
        if before is not None and before.driver == driver:
            self._keep(before)

    def _keep(self, before: Content) -> None:
        self._matched_before = before._matches
        for at, device in enumerate(self.devices):
            bit = before.bit(device.name)
            if bit and before.devices[earlier := position(bit)] == device:
                self._kept.append((at, earlier))
                self._views[at] = before._views[earlier]

    def bit(self, name: str) -> int:
        """The device of that name as a set of one; empty where there is none."""
        if self._places is None:
            self._places = {device.name: 1 << at for at, device in enumerate(self.devices)}
        return self._places.get(name, 0)

    def match(self, selectors: tuple[str, ...], deadline: float | None = None) -> Match:
        """Run the selectors one after the other, each on the devices that passed those before.

        Raises `Interrupted` at the deadline, a reading of `time.monotonic()`; who asks again goes on from there.
        """
        found = self._matches.get(selectors)
        if found is None:
            found = self._matches[selectors] = self._evaluate(selectors, deadline)
        return found

    def _evaluate(self, selectors: tuple[str, ...], deadline: float | None) -> Match:
        if not selectors:
            return Match(self.everything, 0, {})
        progress = self._begun.get(selectors)
        if progress is None:
            progress = self._begun[selectors] = self._begin(selectors, deadline)
        selector = compile_selector(selectors[-1])
        for at in positions(progress.left):
            bit = 1 << at
            cause = None
            if selector.error is not None:
                cause = SelectorError(len(selectors) - 1, str(selector.error), compile=True)
            else:
                try:
                    if selector.matches(self._view(at), deadline=deadline):
                        progress.matched |= bit
                except Interrupted:
                    raise
                except EvaluationError as error:
                    cause = SelectorError(len(selectors) - 1, str(error), compile=False)
            if cause is not None:
                progress.failed |= bit
                progress.causes[at] = cause
            progress.left &= ~bit
            if deadline is not None and progress.left and time.monotonic() > deadline:
                raise Interrupted
        del self._begun[selectors]
        return Match(progress.matched, progress.failed, progress.causes)

    def _begin(self, selectors: tuple[str, ...], deadline: float | None) -> _Progress:
        """The devices that pass the selectors before the last, but for those that were judged in an earlier content."""
        passed, errors, causes = self.match(selectors[:-1], deadline)
        progress = _Progress(passed, errors, dict(causes))
        if (then := self._matched_before.get(selectors)) is not None:
            for at, earlier in self._kept:
                progress.matched |= (then.devices >> earlier & 1) << at
                progress.failed |= (then.errors >> earlier & 1) << at
                if earlier in then.causes:
                    progress.causes[at] = then.causes[earlier]
                progress.left &= ~(1 << at)
        return progress

    def _view(self, at: int) -> DeviceView:
        view = self._views[at]
        if view is None:
            device = self.devices[at]
            shared = device.allowMultipleAllocations or False
            view = self._views[at] = DeviceView(self.driver, device.attributes, device.capacity, shared)
        return view

    def values(self, attribute: str) -> dict[Value, int]:
        """The devices that have the fully qualified attribute, by its value."""
        found = self._values.get(attribute)
        if found is None:
            found = self._values[attribute] = {}
            for at, device in enumerate(self.devices):
                value = self._value(device, attribute)
                if value is not None:
                    found[value] = found.get(value, 0) | 1 << at
        return found

    def _value(self, device: Device, attribute: str) -> Value | None:
        held = device.attributes.get(attribute)
        if held is None:
            domain, _, name = attribute.partition("/")
            held = device.attributes.get(name) if name and domain == self.driver else None
        return None if held is None else comparable(held, device.name)

    def tolerated(self, tolerations: tuple[DeviceToleration, ...]) -> int:
        """The devices without a taint that forbids allocation to someone with these tolerations."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = sum(
                1 << at for at, device in enumerate(self.devices) if not intolerable(device.taints, tolerations)
            )
            self._tolerated[tolerations] = found
        return found


def comparable(attribute: DeviceAttribute, owner: str) -> Value:
    """A value that equals another exactly where Kubernetes says that two attributes match.

    A kind of value that it cannot compare matches nothing else, so it counts as the owner's own.
    """
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return "only", owner


def content_of(slice_: ResourceSlice) -> Content:
    """The content of a slice, shared with no other."""
    return Content(slice_.spec.driver, slice_.spec.devices)


def key_of(slice_: ResourceSlice) -> bytes:
    """Equal for two slices exactly when their contents are."""
    return msgspec.msgpack.encode((slice_.spec.driver, slice_.spec.devices), order="deterministic")
