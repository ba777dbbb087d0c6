"""New pods that differ from an earlier one in their names alone: the short way of creation.

Workloads and load generators write their pods from one template. What checks, defaults and admission made of the first
is what they would make of the next, as long as the gates and the objects that admission reads are the same; so it is
taken over whole, and names, uid and times are new. The answer is the same as that of the long way, which is also left
whatever is out of the ordinary: `None` says so.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.apiserver.identity import generated, new_uid, now
from dray.apiserver.managers import manager_of
from dray.apiserver.request import Answer, Request
from dray.apiserver.storage import encode

Likeness = tuple[object, ...]  # equal for pods that come to the same but for their names

PODS = BY_TYPE[Pod]
_KEPT = 256  # pods that are known at a time; the oldest is forgotten first
_LONGEST = 64 * 1024  # bytes of a body; longer ones are rare, and not worth their memory
_NAMES = ("name", "generateName")


class Alike:
    """The pods that were seen before, and what each came to."""

    def __init__(self) -> None:
        self._known: dict[Likeness, Pod] = {}

    def finished(self, request: Request, likeness: Likeness | None) -> Pod | None:
        """The new pod as it is validated and stored, or None where the long way must be taken."""
        known = self._known.get(likeness) if likeness is not None else None
        if known is None:
            return None
        given, time = request.body["metadata"], now()
        base = given.get("generateName") or ""
        metadata = replace(
            known.metadata,
            name=given.get("name") or generated(base),
            generateName=base,
            uid=new_uid(),
            creationTimestamp=time,
            resourceVersion="",
            managedFields=tuple(replace(entry, time=time) for entry in known.metadata.managedFields),
        )
        return replace(known, metadata=metadata)

    def learn(self, likeness: Likeness | None, answer: Answer) -> None:
        """Remember what a pod came to on the long way, if nothing was to be said about it and nothing else dates it."""
        pod = answer.object
        if likeness is None or answer.warnings or not isinstance(pod, Pod) or pod.status.conditions:
            return
        if len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[likeness] = pod


def likeness(request: Request, state: Likeness) -> Likeness | None:
    """What pods have in common that differ in their names alone; `state` stands for what admission reads.

    Asked about pods only: what admission and strategies do to other kinds may depend on their names.
    """
    body: Any = request.body
    if request.options.dry_run or not isinstance(body, dict):
        return None
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name, base = (metadata.get(field) or "" for field in _NAMES)
    if not isinstance(name, str) or not isinstance(base, str) or not (name or base):
        return None
    rest = {**body, "metadata": {field: value for field, value in metadata.items() if field not in _NAMES}}
    manager = manager_of(request) if request.tracked else request.options.field_manager
    judged = request.version, request.namespace, request.options.field_validation, manager
    text = encode(rest)
    return (text, *judged, not name, not base, state) if len(text) <= _LONGEST else None
