"""Resource quotas that prevent a claim or pod from being created."""

from __future__ import annotations

from msgspec.structs import replace

from dray.api.quantity import Quantity
from dray.api.reasons.causes.not_created import QuotaExceeded
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod, ResourceQuota
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import ResourceClaim
from dray.api.usage import ZERO, names_for, usage_of
from dray.inspect.snapshot import Snapshot


def quota_cause(snapshot: Snapshot, namespace: str, object_: ResourceClaim | Pod) -> QuotaExceeded | None:
    """Return the cause for the first quota of the namespace that does not admit an object, or None.

    A resource of which the object needs nothing is ignored.
    """
    resource = BY_TYPE[type(object_)]
    wanted = usage_of(resource, replace(object_, metadata=ObjectMeta(name="new", namespace=namespace)))
    for quota in snapshot.all(ResourceQuota):
        if quota.metadata.namespace != namespace:
            continue
        for name in names_for(resource, quota.spec.hard):
            need, used = wanted.get(name, ZERO), Quantity.parse(quota.status.used.get(name, "0"))
            hard = Quantity.parse(quota.spec.hard[name])
            if need.sign > 0 and used + need > hard:
                return QuotaExceeded(
                    quota=quota.metadata.name,
                    kind=resource.kind.removeprefix("Resource").lower(),
                    resource=name,
                    hard=str(hard),
                    used=str(used),
                    wanted=str(need),
                )
    return None
