"""ResourceQuota: limits the resources of a namespace, also for concurrent requests.

The usage of a new object is added to the quota's `status.used` in the commit that stores the object, on condition
that the quota is unchanged since it was read. So two requests or two servers cannot use the same remainder. Within
one server, creations in a namespace take turns, which avoids conflicts. Usage that is not yet in the quota's status
is counted here, so a new quota applies at once. The quota controller subtracts deleted objects and changes by
updates, also with `dray.api.usage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from dray.api.quantity import Quantity
from dray.api.resources import BY_TYPE, Resource
from dray.api.types.core import Pod, ResourceQuota
from dray.api.types.resource import DeviceClass
from dray.api.usage import ZERO, ExtendedNames, Usage, in_scope, names_for, total, unspecified, usage_of
from dray.api.wire import Wire
from dray.apiserver.admission import Admission, AdmissionRequest, Write
from dray.apiserver.read.reader import Reader, many, one

_QUOTAS = BY_TYPE[ResourceQuota]


class Quota(Admission):
    """Charges new objects to the quotas of their namespace."""

    name = "ResourceQuota"
    operations = ("CREATE",)

    def __init__(self, reader: Reader, *, serves_extended: bool = True) -> None:
        self._reader = reader
        self._last_change = reader.last_change(_QUOTAS)
        self._extended = ExtendedNames(self._name_of, self._pod_of) if serves_extended else None
        self._seen = -1
        self._quotas: dict[str, tuple[ResourceQuota, ...]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Charge a new object if a quota limits its resources.

        Returns the work as an awaitable, or None if no quota of the namespace limits the object's kind.
        """
        if request.operation != "CREATE" or request.subresource or request.object is None or not request.namespace:
            return None
        quotas = self._in(request.namespace)
        if not quotas or not any(names_for(request.resource, quota.spec.hard) for quota in quotas):
            return None
        return self._take_turn(request)

    async def _take_turn(self, request: AdmissionRequest) -> None:
        """Lock the namespace until after the commit, then charge its quotas. A dry run takes no lock.

        Raises Forbidden if a quota would be exceeded.
        """
        if not request.dry_run:
            turn = self._turns.get(request.namespace) or asyncio.Lock()
            self._turns[request.namespace] = turn
            await request.hold(turn)
        await self.write(request)

    async def write(self, request: AdmissionRequest) -> None:
        """Add the updates of all quotas that apply to a new object to the request's writes.

        A dry run adds none. Raises Forbidden if a quota would be exceeded.
        """
        if request.operation != "CREATE" or request.subresource or request.object is None:
            return
        for quota in self._in(request.namespace):
            names = names_for(request.resource, quota.spec.hard)
            if names and in_scope(quota, request.object):
                used = self._charge(request, request.object, quota, names)
                if used and not request.dry_run:
                    request.writes.append(_written(quota, used))

    def _name_of(self, class_: str) -> str | None:
        """Return the extended resource name of a DeviceClass, or None if the class does not exist or has none."""
        found = one(self._reader, DeviceClass, "", class_)
        return found.spec.extendedResourceName if found is not None else None

    def _pod_of(self, namespace: str, name: str) -> Pod | None:
        return one(self._reader, Pod, namespace, name)

    def _in(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """Return the quotas of a namespace, cached until a quota changes."""
        seen = self._last_change.revision
        if seen != self._seen:
            self._seen = seen
            self._quotas.clear()
        quotas = self._quotas.get(namespace)
        if quotas is None:
            quotas = self._quotas[namespace] = tuple(many(self._reader, ResourceQuota, namespace))
        return quotas

    def _charge(self, request: AdmissionRequest, obj: Wire, quota: ResourceQuota, names: list[str]) -> Usage:
        """Return the quota's usage including a new object, for the resources that it uses; empty if it uses none.

        Raises Forbidden above the limit, or if a pod lacks amounts that the quota requires.
        """
        if isinstance(obj, Pod) and (silent := unspecified(obj, names)):
            raise request.forbidden(f"failed quota: {quota.metadata.name}: must specify {_shown_silent(silent)}")
        wanted = usage_of(request.resource, obj, self._extended)
        requested = {name: wanted[name] for name in names if wanted.get(name, ZERO).sign > 0}
        if not requested:
            return {}
        used = self._used(quota, requested, request.resource)
        hard = {name: Quantity.parse(quota.spec.hard[name]) for name in requested}
        exceeded = [name for name in requested if used[name] + requested[name] > hard[name]]
        if exceeded:
            raise request.forbidden(
                f"exceeded quota: {quota.metadata.name}, requested: {_shown(requested, exceeded)}, "
                f"used: {_shown(used, exceeded)}, limited: {_shown(hard, exceeded)}"
            )
        return {name: used[name] + requested[name] for name in requested}

    def _used(self, quota: ResourceQuota, names: Iterable[str], resource: Resource) -> Usage:
        """Return the current usage of the named resources, counted if the quota's status lacks one."""
        known = quota.status.used
        if any(name not in known for name in names):
            custom = (resource,) if resource.custom is not None else ()
            namespace = quota.metadata.namespace
            counted = total(quota, lambda listed: self._reader.list(listed, namespace), custom, self._extended)
            known = {name: str(amount) for name, amount in counted.items()} | known
        return {name: Quantity.parse(known[name]) for name in names}


def _written(quota: ResourceQuota, used: Usage) -> Write:
    """Return the additional write that sets `status.used` of a quota, with other used amounts unchanged."""
    tree: dict[str, Any] = msgspec.to_builtins(quota)
    before = tree.get("status", {}).get("used", {})
    tree["status"] = {
        "hard": dict(quota.spec.hard),
        "used": {**before, **{name: str(amount) for name, amount in used.items()}},
    }
    metadata = quota.metadata
    return Write(_QUOTAS, metadata.namespace, metadata.name, tree, metadata.resourceVersion)


def _shown(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    """Return the amounts of the given names as text, such as "cpu=1,memory=1Gi"."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names))


def _shown_silent(missing: Mapping[str, list[str]]) -> str:
    """Return missing resources with their containers as text, such as "cpu for: a,b; memory for: a"."""
    return "; ".join(f"{name} for: {','.join(containers)}" for name, containers in missing.items())
