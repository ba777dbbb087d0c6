"""The devices of containers on this node, for monitoring agents: the kubelet's PodResources socket.

The socket reports only devices of claims. The node does not assign processors, memory or devices of device plugins,
so those lists are empty. Left out: access control, which is the socket's file mode.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc.aio

from dray.api.podclaims import is_finished
from dray.api.types.core import Container, Pod
from dray.node.claims import ClaimsOnNode, Granted
from dray.rpc import podresources_pb2 as messages
from dray.rpc.services import add_service, start_server

log = logging.getLogger(__name__)

SOCKET = "pod-resources/kubelet.sock"
_PATH_MOST = 107


class PodResources:
    """Serves the devices of the node's pods over gRPC. `pods` returns the pods of this node."""

    def __init__(self, claims: ClaimsOnNode, pods: Callable[[], Iterable[Pod]]) -> None:
        self._claims = claims
        self._pods = pods
        self._server: grpc.aio.Server | None = None

    async def start(self, root: Path) -> None:
        """Listen on the socket in the agent's root directory.

        If the path is too long for the kernel, a warning is logged and nothing is served; pods run regardless.
        """
        path = root / SOCKET
        if len(os.fsencode(path)) > _PATH_MOST:
            log.warning(
                "socket path %s is too long (at most %d bytes): the PodResources API is not served", path, _PATH_MOST
            )
            return
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        server = self._server = grpc.aio.server()
        add_service(server, messages, self)
        server.add_insecure_port(f"unix:{path}")
        await start_server(server)
        os.chmod(path, 0o600)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)

    async def List(self, request: Any, context: Any) -> messages.ListPodResourcesResponse:
        running = [pod for pod in self._pods() if not is_finished(pod)]
        return messages.ListPodResourcesResponse(pod_resources=[self._of(pod) for pod in running])

    async def Get(self, request: Any, context: Any) -> messages.GetPodResourcesResponse:
        for pod in self._pods():
            if (pod.metadata.name, pod.metadata.namespace) == (request.pod_name, request.pod_namespace):
                return messages.GetPodResourcesResponse(pod_resources=self._of(pod))
        where = f"{request.pod_name} in namespace {request.pod_namespace}"
        await context.abort(grpc.StatusCode.NOT_FOUND, f"pod {where} not found")
        raise AssertionError("abort raises")

    async def GetAllocatableResources(self, request: Any, context: Any) -> messages.AllocatableResourcesResponse:
        return messages.AllocatableResourcesResponse()

    def _of(self, pod: Pod) -> messages.PodResources:
        containers = [*pod.spec.initContainers, *pod.spec.containers]
        return messages.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[self._container(pod, container) for container in containers],
        )

    def _container(self, pod: Pod, container: Container) -> messages.ContainerResources:
        by_claim: dict[str, list[Granted]] = {}
        for granted in self._claims.granted(pod, container):
            by_claim.setdefault(granted.name, []).append(granted)
        return messages.ContainerResources(
            name=container.name,
            dynamic_resources=[
                messages.DynamicResource(
                    claim_name=name,
                    claim_namespace=pod.metadata.namespace,
                    claim_resources=[_resource(granted) for granted in dict.fromkeys(granted_)],
                )
                for name, granted_ in by_claim.items()
            ],
        )


def _resource(granted: Granted) -> messages.ClaimResource:
    device = granted.device
    return messages.ClaimResource(
        cdi_devices=[messages.CDIDevice(name=name) for name in device.cdi],
        driver_name=granted.driver,
        pool_name=device.pool,
        device_name=device.device,
        **({"share_id": device.share} if device.share else {}),
    )
