"""DeviceTaintRule: adds a taint to the devices that it selects."""

from __future__ import annotations

import time

from dray.api.columns import AGE, NAME, since, text
from dray.api.kind import NOW, STATUS, Resource
from dray.api.times import timestamp
from dray.api.types import resource
from dray.api.wire import Tree


def _renew(tree: Tree, old: resource.DeviceTaintRule) -> None:
    """Set the taint's timeAdded to the current time if its effect changes and the client does not set another time."""
    taint = tree.setdefault("spec", {}).setdefault("taint", {})
    before = old.spec.taint
    if taint.get("effect", "") != before.effect and taint.get("timeAdded") == before.timeAdded:
        taint["timeAdded"] = timestamp(time.time())


KIND = Resource(
    resource.DeviceTaintRule,
    versions=("v1", "v1beta2", "v1alpha3"),
    namespaced=False,
    subresources=STATUS,
    gate="DRADeviceTaints",
    columns=(
        NAME,
        text("Key", "spec.taint.key"),
        text("Value", "spec.taint.value"),
        text("Effect", "spec.taint.effect"),
        since("TimeAdded", "spec.taint.timeAdded"),
        AGE,
    ),
    generation=("spec",),
    conditional=("v1",),
    deprecated={"v1alpha3": "v1.36+, unavailable in v1.39+"},
    defaults={"spec.taint.timeAdded": NOW},
    on_update={"": _renew},
)
