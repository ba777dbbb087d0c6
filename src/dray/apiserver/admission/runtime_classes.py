"""RuntimeClass: a pod that names a class gets its overhead, node selector and tolerations.

The class's handler is ignored: containers run in the runtime of the node's agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from dray.api.quantity import Quantity
from dray.api.types.core import Pod
from dray.api.types.node import RuntimeClass
from dray.api.wire import Tree
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, one
from dray.background.turns import turns

_OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassAdmission(Admission):
    """Sets the fields of a pod's RuntimeClass, and denies pods that contradict it."""

    name = "RuntimeClass"
    types = (Pod,)
    operations = ("CREATE",)
    reads = (RuntimeClass,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Set overhead, node selector and tolerations in a new pod, as its RuntimeClass says.

        Returns the merging of tolerations as an awaitable, or None if there are none to add. Raises Forbidden if the
        RuntimeClass does not exist.
        """
        spec = request.tree.get("spec") if request.tree is not None and not request.subresource else None
        found = self._class(request, spec.get("runtimeClassName")) if isinstance(spec, dict) else None
        if spec is None or found is None:
            return None
        if found.overhead is not None and not spec.get("overhead"):
            spec["overhead"] = dict(found.overhead.podFixed)
        if found.scheduling is not None:
            _select(request, spec, found.scheduling.nodeSelector)
            own = spec.get("tolerations") or []
            if added := msgspec.to_builtins(found.scheduling.tolerations):
                return self._tolerate(request, spec, [*own, *added])
        return None

    async def _tolerate(self, request: AdmissionRequest, spec: dict[str, Any], tolerations: Sequence[Tree]) -> None:
        """Set the merged tolerations, yielding to other work in between."""
        spec["tolerations"] = await turns().run(request.user.name, merged_tolerations(tolerations))

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden if a pod's overhead differs from that of its RuntimeClass.

        A pod without a class, or whose class has no overhead, must have none. Also raises Forbidden if the class does
        not exist.
        """
        pod = request.object
        if not isinstance(pod, Pod) or request.subresource:
            return
        found = self._class(request, pod.spec.runtimeClassName)
        if found is None or found.overhead is None:
            if pod.spec.overhead:
                raise request.forbidden(_ALONE)
        elif not _equal(pod.spec.overhead, found.overhead.podFixed):
            raise request.forbidden(_OTHER)

    def _class(self, request: AdmissionRequest, name: str | None) -> RuntimeClass | None:
        """Return the named RuntimeClass, or None without a name. Raises Forbidden if it does not exist."""
        if name is None:
            return None
        found = one(self._reader, RuntimeClass, "", name)
        if found is None:
            raise request.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _select(request: AdmissionRequest, spec: dict[str, Any], wanted: Mapping[str, str]) -> None:
    """Merge the class's node selector into a pod spec. Raises Forbidden on conflicting values."""
    own = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            text = "conflict: runtimeClass.scheduling.nodeSelector[{0}] = {1}; pod.spec.nodeSelector[{0}] = {2}"
            raise request.forbidden(text.format(key, value, own[key]))
    if wanted:
        spec["nodeSelector"] = {**own, **wanted}


def _equal(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    """Return whether two overheads have the same resources and amounts."""
    return left.keys() == right.keys() and all(Quantity.parse(left[key]) == Quantity.parse(right[key]) for key in left)


def merged_tolerations(tolerations: Sequence[Tree]) -> Generator[None, None, list[Tree]]:
    """Return the tolerations without those covered by another; of equal ones the first is kept.

    A generator that yields after each toleration, because each is compared with all others.
    """
    kept: list[Tree] = []
    for index, one_ in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != one_)
        if not any(_covers(other, one_) for other in (*kept, *later)):
            kept.append(one_)
        yield
    return kept


def _covers(wide: Tree, narrow: Tree) -> bool:
    """Return whether `wide` tolerates everything that `narrow` tolerates, for at least as long."""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if (wide.get("key") or "") != (narrow.get("key") or "") and not (exists and not wide.get("key")):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect"):
        return False
    seconds = wide.get("tolerationSeconds") if wide.get("effect") == "NoExecute" else None
    if seconds is not None and (narrow.get("tolerationSeconds") is None or narrow["tolerationSeconds"] > seconds):
        return False
    equals = all((one_.get("operator") or "Equal") == "Equal" for one_ in (wide, narrow))
    return exists or (equals and (wide.get("value") or "") == (narrow.get("value") or ""))
