"""DeviceTaintRule: adds a taint to the devices that it selects."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, since, text
from dray.api.kind import DRA, STATUS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "devicetaintrules",
    "DeviceTaintRule",
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
)
