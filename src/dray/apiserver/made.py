"""New objects of the cluster's own parts: the short way of creation.

The claim controller and the recorders of events make thousands of objects a second, and make them typed and complete.
There is nothing in them to check against the schema, and no admission plugin changes objects of these kinds, so they are
never a tree. What needs the gates and the defaults is the spec of a claim, and all claims of a template share theirs: the
first one goes the long way, and what its spec came to is taken for the others. The answer is the same as that of the
long way, which is also left whatever is out of the ordinary: `None` says so.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dray.api.types.core import Event
from dray.api.types.resource import ResourceClaim, ResourceClaimSpec
from dray.api.wire import Wire
from dray.apiserver.identity import new_uid, now
from dray.apiserver.request import Request

_KINDS = (Event, ResourceClaim)
_SPECS = 256  # that are known at a time; the oldest is forgotten first


class Made:
    """The specs that were seen before, and what each came to."""

    def __init__(self) -> None:
        # By identity of the spec that was given, which stays that one's as long as it is kept here.
        self._specs: dict[int, tuple[ResourceClaimSpec, ResourceClaimSpec]] = {}

    def finished(self, request: Request) -> Any | None:
        """The new object as it is validated and stored, or None where the long way must be taken."""
        obj = request.body
        if not isinstance(obj, _KINDS) or request.options.field_manager or request.options.dry_run:
            return None
        meta = obj.metadata
        if not meta.name or meta.namespace != request.namespace or meta.resourceVersion:
            return None
        metadata = replace(meta, uid=new_uid(), creationTimestamp=now())
        if isinstance(obj, Event):
            return replace(obj, metadata=metadata)
        known = self._specs.get(id(obj.spec))
        return None if known is None else ResourceClaim(metadata=metadata, spec=known[1])

    def learn(self, given: Wire, stored: Wire) -> None:
        """Remember what the spec of an object came to on the long way."""
        if isinstance(given, ResourceClaim) and isinstance(stored, ResourceClaim):
            if len(self._specs) >= _SPECS:
                del self._specs[next(iter(self._specs))]
            self._specs[id(given.spec)] = (given.spec, stored.spec)
