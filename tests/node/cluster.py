"""Pods and claims as scheduler and users would leave them, and waiting for what a node makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.types.core import Event, Pod
from dray.api.types.resource import ResourceClaim
from dray.client import Client, PatchKind
from tests.node.driver import NAME
from tests.waiting import eventually

NODE = "node-a"
NAMESPACE = "default"


class Cluster:
    """What happens around a node."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def claim(
        self,
        name: str,
        *,
        drivers: tuple[str, ...] = (NAME,),
        requests: tuple[str, ...] = ("gpu",),
        allocate: bool = True,
        any_pod: bool = False,
        **result: Any,
    ) -> ResourceClaim:
        """A claim with an allocated device of each driver for each request."""
        wanted = [{"name": r.partition("/")[0], "exactly": {"deviceClassName": "gpu"}} for r in requests]
        tree = {"metadata": {"name": name}, "spec": {"devices": {"requests": wanted}}}
        claim = await self.client.create(ResourceClaim, tree, namespace=NAMESPACE)
        if not allocate:
            return claim
        results = [
            {"request": r, "driver": d, "pool": "pool", "device": f"gpu-{number}", **result}
            for d in drivers
            for number, r in enumerate(requests)
        ]
        opened = {"reservedForAnyPod": True} if any_pod else {}
        status = {"allocation": {"devices": {"results": results}, **opened}}
        return await self.client.patch(ResourceClaim, name, {"status": status}, NAMESPACE, subresource="status")

    async def reserve(self, claim: str, *pods: Pod) -> None:
        current = await self.client.get(ResourceClaim, claim, NAMESPACE)
        known = [{"resource": r.resource, "name": r.name, "uid": r.uid} for r in current.status.reservedFor]
        new = [{"resource": "pods", "name": p.metadata.name, "uid": p.metadata.uid} for p in pods]
        patch = {"status": {"reservedFor": known + new}}
        await self.client.patch(ResourceClaim, claim, patch, NAMESPACE, subresource="status")

    async def pod(
        self,
        name: str,
        script: str = "sleep 600",
        *,
        claims: tuple[str, ...] = (),
        reserve: bool = True,
        uses: list[dict[str, str]] | None = None,
        **spec: Any,
    ) -> Pod:
        """A pod on the node with one container that runs a script; its claims are reserved for it."""
        container: dict[str, Any] = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
        if claims:
            container["resources"] = {"claims": uses or [{"name": claim} for claim in claims]}
        tree = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                **spec,
            },
        }
        pod = await self.client.create(Pod, tree, namespace=NAMESPACE)
        for claim in claims if reserve else ():
            await self.reserve(claim, pod)
        return pod

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.client.delete(Pod, name, NAMESPACE, grace=grace)

    async def get(self, name: str) -> Pod:
        return await self.client.get(Pod, name, NAMESPACE)

    async def names(self) -> list[str]:
        return [pod.metadata.name for pod in (await self.client.list(Pod, NAMESPACE)).items]

    async def until(self, name: str, condition: Callable[[Pod], object]) -> Pod:
        """Wait for a pod to be as it should."""

        async def look() -> Pod | None:
            pod = await self.get(name)
            return pod if condition(pod) else None

        try:
            found = await eventually(look)
        except AssertionError:
            status = (await self.get(name)).status
            raise AssertionError(f"pod {name} is {status}; events: {await self.events(name)}") from None
        assert found is not None
        return found

    async def phase(self, name: str, phase: str) -> Pod:
        return await self.until(name, lambda pod: pod.status.phase == phase)

    async def gone(self, name: str) -> None:
        await eventually(lambda: self._missing(name))

    async def _missing(self, name: str) -> bool:
        return name not in await self.names()

    async def events(self, name: str) -> list[tuple[str, str]]:
        page = await self.client.list(Event, NAMESPACE)
        return [(e.reason, e.message) for e in page.items if e.involvedObject.name == name]

    async def event(self, name: str, reason: str, text: str = "") -> str:
        """Wait for an event; its message."""
        found: list[str] = []

        async def look() -> bool:
            found[:] = [m for r, m in await self.events(name) if r == reason and text in m]
            return bool(found)

        await eventually(look)
        return found[0]

    async def status(self, name: str, patch: dict[str, Any]) -> None:
        await self.client.patch(Pod, name, {"status": patch}, NAMESPACE, kind=PatchKind.STRATEGIC, subresource="status")
