"""A priority class becomes a number: resolved once, when a pod or a group is created.

Without a class the cluster's default class counts, and without one of those 0. Left out: what the number does, which is
the scheduler's business.
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
    """Fills in priorities."""

    name = "Priority"
    types = (Pod, PodGroup, PriorityClass)
    reads = (PriorityClass,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_change = reader.last_change(_CLASSES)
        self._default: tuple[int, PriorityClass | None] = (-1, None)

    def admit(self, request: AdmissionRequest) -> None:
        if request.tree is None or request.subresource or not request.concerns(Pod, PodGroup, PriorityClass):
            return
        spec = request.tree.get("spec")
        if request.operation == "CREATE" and isinstance(spec, dict) and not request.concerns(PriorityClass):
            self._resolve(request, spec)
        elif request.operation == "UPDATE" and isinstance(request.old, Pod) and isinstance(spec, dict):
            # An older client that does not know the fields must not take them away.
            spec.setdefault("priority", request.old.spec.priority)
            spec.setdefault("preemptionPolicy", request.old.spec.preemptionPolicy)

    def validate(self, request: AdmissionRequest) -> None:
        new = request.object
        if not isinstance(new, PriorityClass) or not new.globalDefault:
            return
        other = self._default_class()
        if other and other.metadata.name != new.metadata.name:
            raise request.forbidden(
                f"PriorityClass {other.metadata.name} is already marked as default. Only one default can exist"
            )

    def _resolve(self, request: AdmissionRequest, spec: dict[str, Any]) -> None:
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
        """The class marked as default with the lowest value; looked for again only when a class has changed."""
        seen = self._last_change.revision
        if self._default[0] != seen:
            marked = [found for found in many(self._reader, PriorityClass) if found.globalDefault]
            self._default = (seen, min(marked, key=lambda found: found.value, default=None))
        return self._default[1]
