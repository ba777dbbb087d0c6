"""Priority: set the number of a PriorityClass in a new pod or pod group.

Without a class name the cluster's default class applies, and without a default class 0.
"""

from __future__ import annotations

from typing import Any

from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, many, one

_CLASSES = BY_TYPE[PriorityClass]
DEFAULT_POLICY = "PreemptLowerPriority"


class Priority(Admission):
    """Sets priorities from PriorityClasses."""

    name = "Priority"
    types = (Pod, PodGroup, PriorityClass)
    reads = (PriorityClass,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_change = reader.last_change(_CLASSES)
        self._default: tuple[int, PriorityClass | None] = (-1, None)

    def admit(self, request: AdmissionRequest) -> None:
        """Set the priority of a new pod or pod group, and keep that of an updated pod."""
        if request.tree is None or request.subresource or not request.concerns(Pod, PodGroup, PriorityClass):
            return
        spec = request.tree.get("spec")
        if request.operation == "CREATE" and isinstance(spec, dict) and not request.concerns(PriorityClass):
            self._resolve(request, spec)
        elif request.operation == "UPDATE" and isinstance(request.old, Pod) and isinstance(spec, dict):
            # A client of an older version may omit the fields, which must not remove them.
            spec.setdefault("priority", request.old.spec.priority)
            spec.setdefault("preemptionPolicy", request.old.spec.preemptionPolicy)

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden for a second default PriorityClass. Other objects are not checked."""
        new = request.object
        if not isinstance(new, PriorityClass) or not new.globalDefault:
            return
        other = self._default_class()
        if other and other.metadata.name != new.metadata.name:
            raise request.forbidden(
                f"PriorityClass {other.metadata.name} is already marked as default. Only one default can exist"
            )

    def _resolve(self, request: AdmissionRequest, spec: dict[str, Any]) -> None:
        """Set priority, class name and preemption policy in a spec.

        Raises Forbidden for an unknown class or other values.
        """
        name = spec.get("priorityClassName") or ""
        found = one(self._reader, PriorityClass, "", name) if name else self._default_class()
        if name and found is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
        value = found.value if found else 0
        given = spec.get("priority")
        if given is not None and given != value:
            text = "the integer value of priority ({}) must not be provided in {} spec; priority admission controller computed {} from the given PriorityClass name"
            raise request.forbidden(text.format(given, request.resource.kind.lower(), value))
        spec["priority"] = value
        if found and not name:
            spec["priorityClassName"] = found.metadata.name
        if request.concerns(Pod):
            policy = found.preemptionPolicy if found and found.preemptionPolicy else DEFAULT_POLICY
            if spec.get("preemptionPolicy", policy) not in (policy, None):
                text = "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name"
                raise request.forbidden(text.format(spec["preemptionPolicy"], policy))
            spec["preemptionPolicy"] = policy

    def _default_class(self) -> PriorityClass | None:
        """Return the default class with the lowest value, or None if no class is a default.

        Cached until a class changes.
        """
        seen = self._last_change.revision
        if self._default[0] != seen:
            marked = [found for found in many(self._reader, PriorityClass) if found.globalDefault]
            self._default = (seen, min(marked, key=lambda found: found.value, default=None))
        return self._default[1]
