"""PriorityClass: a named pod priority."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, flag, number, text
from dray.api.errors import forbidden
from dray.api.kind import Resource
from dray.api.paths import METADATA, Path
from dray.api.rules import Errors
from dray.api.types import scheduling

HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


KIND = Resource(
    scheduling.PriorityClass,
    namespaced=False,
    short_names=("pc",),
    columns=(
        NAME,
        number("Value", "value"),
        flag("Global-Default", "globalDefault"),
        text("PreemptionPolicy", "preemptionPolicy"),
        AGE,
    ),
    generation=(),
    defaults={"preemptionPolicy": "PreemptLowerPriority"},
)


def priority(class_: scheduling.PriorityClass, _: Path | None) -> Errors:
    """Yield errors if the name or value of a PriorityClass is reserved for the system."""
    name, value = class_.metadata.name, class_.value
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value or class_.globalDefault:
            reason = f"{name} is not a known system priority class"
            if name in _SYSTEM_CLASSES:
                wrong = f"value of {name} PriorityClass must be {_SYSTEM_CLASSES[name]}"
                reason = (
                    wrong if _SYSTEM_CLASSES[name] != value else f"globalDefault of {name} PriorityClass must be false"
                )
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            yield forbidden(METADATA / "name", text + reason)
    elif value > HIGHEST_PRIORITY:
        yield forbidden(Path("value"), f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
