"""Keeps `status.used` of quotas correct: admission charges created objects, this controller subtracts deleted ones.

Each count uses a fresh list made after reading the quota, and is written only if the quota has not changed since
then. An object created meanwhile changes the quota, so no charge is lost. Left out: refusing objects (admission), and
how much an object counts (`dray.api.usage`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from dray.api import usage
from dray.api.errors import NotFound
from dray.api.podclaims import is_finished
from dray.api.quantity import Quantity
from dray.api.resources import BY_TYPE, RESOURCES, Resource
from dray.api.types.core import Pod, ResourceQuota, ResourceQuotaStatus
from dray.api.types.resource import DeviceClass
from dray.api.wire import Wire
from dray.client import Delta, Deltas, Key, key_of, type_of
from dray.controllers.context import ControllerContext
from dray.controllers.custom import CustomResources

# Deletions come in bursts; one count serves all within this time.
_GATHER_SECONDS = 0.05
# Custom objects and events have no informer here and are recounted at intervals. Few quotas limit them, and a copy of
# all events would cost a fiftieth of the work on a pod. Names that match no resource yet may belong to a kind that
# will be defined.
_UNFOLLOWED_SECONDS = 30.0
# Usage that a client wrote too high looks like a charge by admission. It is corrected by this regular recount.
_RESYNC_SECONDS = 300.0


class QuotaController:
    """Recounts the quotas of namespaces in which objects changed."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._serves_extended = context.gates.served("DRAExtendedResource")
        self._custom = CustomResources(context)
        self._quotas = context.informers.informer(ResourceQuota)
        self._quotas.add_index("namespace", lambda quota: [quota.metadata.namespace])
        self._quotas.add_handler(self._on_quotas)
        self._controller = context.controller("resourcequota", self._reconcile)
        self.run = self._controller.run
        for resource in RESOURCES:
            if _is_followed(resource):
                context.informers.informer(type_of(resource)).add_handler(self._recount(resource))

        if self._serves_extended:
            context.informers.informer(DeviceClass).add_handler(self._on_classes)

    def _on_classes(self, deltas: Deltas[DeviceClass]) -> None:
        """Queue quotas on extended resources whose device classes changed their extended resource name."""
        names = {d.object.spec.extendedResourceName for d in deltas} | {
            d.old.spec.extendedResourceName for d in deltas if d.old is not None
        }
        for quota in self._quotas.list() if names - {None} else ():
            if any(f"requests.{name}" in quota.spec.hard for name in names):
                self._controller.queue.add_after(key_of(quota), _GATHER_SECONDS)

    def _on_quotas(self, deltas: Deltas[ResourceQuota]) -> None:
        for old, new in deltas:
            if new is not None and (old is None or old.spec != new.spec or _is_overwritten(old, new)):
                self._controller.queue.add(key_of(new))

    def _recount(self, resource: Resource) -> Callable[[Deltas[Any]], None]:
        def on_change(deltas: Deltas[Any]) -> None:
            if not len(self._quotas):
                return
            for namespace in {d.object.metadata.namespace for d in deltas if _frees(d)}:
                for quota in self._quotas.by_index("namespace", namespace):
                    if usage.names_for(resource, quota.spec.hard):
                        self._controller.queue.add_after(key_of(quota), _GATHER_SECONDS)

        return on_change

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        try:
            quota = await self._client.get(ResourceQuota, name, namespace)
        except NotFound:
            return None
        custom = [r for r in self._custom.all() if r.namespaced and usage.names_for(r, quota.spec.hard)]
        known = [r for r in RESOURCES if usage.names_for(r, quota.spec.hard)]
        counted = {r: await self._objects(r, namespace) for r in (*known, *custom)}
        extended = await self._extended(quota, counted)
        total = usage.total(quota, counted.__getitem__, custom, extended)
        used = {name: str(amount) for name, amount in total.items()}
        status = ResourceQuotaStatus(hard=dict(quota.spec.hard), used=used)
        if status != quota.status:
            await self._client.patch_status(quota, status)
        is_followed = all(map(_is_followed, counted)) and quota.spec.hard.keys() <= used.keys()
        return _RESYNC_SECONDS if is_followed else _UNFOLLOWED_SECONDS

    async def _extended(
        self, quota: ResourceQuota, counted: Mapping[Resource, tuple[Wire, ...]]
    ) -> usage.ExtendedNames | None:
        """Return the lookups needed to count claims as extended resources, or None if the quota limits none."""
        if not self._serves_extended or not any(map(usage.is_extended, quota.spec.hard)):
            return None
        classes = {one.metadata.name: one for one in (await self._client.list(DeviceClass)).items}
        pods = {pod.metadata.name: pod for pod in counted[BY_TYPE[Pod]] if isinstance(pod, Pod)}
        return usage.ExtendedNames(
            lambda name: classes[name].spec.extendedResourceName if name in classes else None,
            lambda _, name: pods.get(name),
        )

    async def _objects(self, resource: Resource, namespace: str) -> tuple[Wire, ...]:
        try:
            page = await self._client.list(type_of(resource), namespace)
        except NotFound:  # not served
            return ()
        return cast("tuple[Wire, ...]", page.items)


def _is_followed(resource: Resource) -> bool:
    """Whether an informer of this resource reports deletions to this controller.

    Events and custom resources are not followed.
    """
    is_counted = resource.namespaced and "delete" in resource.verbs and resource.alias_of is None
    return is_counted and resource.custom is None and resource.plural != "events"


def _is_overwritten(old: ResourceQuota, new: ResourceQuota) -> bool:
    """Whether a client has overwritten the status. Admission only raises usage, so other changes cause a recount.

    Returns True if `status.hard` differs from the spec, if other resource names are counted, or if a number
    decreased.
    """
    if new.status == old.status:
        return False
    used, before = new.status.used, old.status.used
    return (
        new.status.hard != new.spec.hard
        or used.keys() != before.keys()
        or any(Quantity.parse(used[name]) < Quantity.parse(before[name]) for name in used.keys() & before.keys())
    )


def _frees(delta: Delta[Any]) -> bool:
    """Whether a change can lower usage: an object was deleted, or a pod has finished."""
    if delta.new is None:
        return True
    if isinstance(delta.new, Pod):
        return is_finished(delta.new) and (delta.old is None or not is_finished(delta.old))
    return False
