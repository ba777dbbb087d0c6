"""Keeps `status.used` of quotas true: admission charges what is created, this gives back what is gone.

Every count is made from a fresh list after reading the quota, and written only if the quota is still the one that was
read; an object that is created meanwhile changes the quota, so no charge is ever lost. Left out: refusing objects
(admission), and what counts for how much (`dray.api.usage`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dray.api import usage
from dray.api.errors import NotFound
from dray.api.resources import RESOURCES, Resource
from dray.api.types.core import Pod, ResourceQuota
from dray.api.wire import Wire
from dray.client import Controller, Delta, Deltas, Key, key_of, type_of
from dray.controllers.context import Context

# Deletions come in bursts; one count serves all that fall within this time.
_GATHER_SECONDS = 0.05
_DONE = ("Succeeded", "Failed")


class QuotaController:
    """Recounts the quotas of namespaces where something changed."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._quotas = context.informers.informer(ResourceQuota)
        self._quotas.add_index("namespace", lambda quota: [quota.metadata.namespace])
        self._quotas.add_handler(self._on_quotas)
        self._controller: Controller[Key] = Controller("resourcequota", self._reconcile, clock=context.clock)
        for resource in RESOURCES:
            if resource.namespaced and "delete" in resource.verbs and resource.alias_of is None:
                context.informers.informer(type_of(resource)).add_handler(self._recount(resource))

    async def run(self) -> None:
        await self._controller.run()

    def _on_quotas(self, deltas: Deltas[ResourceQuota]) -> None:
        for old, new in deltas:
            if new is not None and (old is None or old.spec != new.spec):
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

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        try:
            quota = await self._client.get(ResourceQuota, name, namespace)
        except NotFound:
            return
        counted = {r: await self._objects(r, namespace) for r in RESOURCES if usage.names_for(r, quota.spec.hard)}
        used = {name: str(amount) for name, amount in usage.total(quota, counted.__getitem__).items()}
        status = {"hard": dict(quota.spec.hard), "used": used}
        if status == {"hard": quota.status.hard, "used": quota.status.used}:
            return
        # Names that left the quota must leave its status: a merge patch keeps what it does not name.
        gone = {name: None for name in quota.status.used if name not in used}
        patch = {
            "metadata": {"resourceVersion": quota.metadata.resourceVersion},
            "status": {
                "hard": status["hard"] | {n: None for n in quota.status.hard if n not in quota.spec.hard},
                "used": used | gone,
            },
        }
        await self._client.patch(ResourceQuota, name, patch, namespace, subresource="status")

    async def _objects(self, resource: Resource, namespace: str) -> tuple[Wire, ...]:
        try:
            page = await self._client.list(type_of(resource), namespace)
        except NotFound:  # not served
            return ()
        return cast("tuple[Wire, ...]", page.items)


def _frees(delta: Delta[Any]) -> bool:
    """Whether a change can lower what is used: something is gone, or a pod is done."""
    if delta.new is None:
        return True
    if isinstance(delta.new, Pod):
        return delta.new.status.phase in _DONE and (delta.old is None or delta.old.status.phase not in _DONE)
    return False
