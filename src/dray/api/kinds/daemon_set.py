"""DaemonSet: keeps one pod on every node that fits."""

from __future__ import annotations

from dray.api.cells import labels
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.templates import TEMPLATE_COLUMNS
from dray.api.types import apps

KIND = Resource(
    "apps",
    "daemonsets",
    "DaemonSet",
    apps.DaemonSet,
    short_names=("ds",),
    categories=ALL,
    subresources=STATUS,
    columns=(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        text("Node Selector", lambda daemons: labels(daemons.spec.template.spec.nodeSelector)),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
)
