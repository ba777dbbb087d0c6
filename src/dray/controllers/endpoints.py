"""Endpoints of Services: keeps EndpointSlices, and Endpoints for older clients, that list the pods behind each
Service.

A slice has at most a hundred endpoints. Terminating pods stay in the slices, marked as such, but leave the Endpoints.
The first part is pure. Left out: Services without a selector, whose endpoints somebody else maintains, and proxies.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from contextlib import suppress

from dray.api.errors import AlreadyExists, NotFound
from dray.api.podclaims import is_finished
from dray.api.types.core import Container, Endpoints, Pod, Service, ServicePort
from dray.api.types.discovery import EndpointSlice
from dray.api.wire import Tree, tree_of
from dray.client import Deltas, Key, key_of
from dray.controllers.context import ControllerContext
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.pods import is_deleting, is_ready

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
SLICE_MAX = 100
WORKERS = 8
BY_NAMESPACE, BY_SERVICE = "namespace", "service"


# Wanted state


def selects(service: Service, labels: dict[str, str]) -> bool:
    selector = service.spec.selector
    return bool(selector) and selector.items() <= labels.items()


def answering(service: Service, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that a Service selects and that have an address and have not finished, sorted by name."""
    found = [p for p in pods if p.status.podIP and not is_finished(p) and selects(service, p.metadata.labels)]
    return sorted(found, key=lambda pod: pod.metadata.name)


def _number(port: ServicePort, containers: Iterable[Container]) -> int | None:
    """Return the port number of a pod to which a Service's port leads, or None if no container declares that port.

    A targetPort of 0 means the Service's own port number. A name must belong to a port with the same protocol.
    """
    if isinstance(port.targetPort, int):
        return port.targetPort or port.port
    for container in containers:
        for known in container.ports:
            if known.name == port.targetPort and known.protocol == port.protocol:
                return known.containerPort
    return None


Ports = tuple[tuple[str, str, int], ...]  # name, protocol, number


def ports_of(service: Service, pod: Pod) -> Ports:
    """Return the ports of a Service with this pod's port numbers; pods may have different numbers for the same name.

    Each is (name, protocol, number). Ports that no container of the pod declares are left out.
    """
    numbers = ((port, _number(port, pod.spec.containers)) for port in service.spec.ports)
    return tuple((port.name, port.protocol, number) for port, number in numbers if number is not None)


def endpoint(service: Service, pod: Pod) -> Tree:
    serving, ending = is_ready(pod), is_deleting(pod)
    ready = service.spec.publishNotReadyAddresses or (serving and not ending)
    tree: Tree = {
        "addresses": [pod.status.podIP],
        "conditions": {"ready": ready, "serving": serving, "terminating": ending},
        "targetRef": _target(pod),
    }
    if pod.spec.nodeName:
        tree["nodeName"] = pod.spec.nodeName
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        tree["hostname"] = pod.spec.hostname
    return tree


def _target(pod: Pod) -> Tree:
    return {"kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}


def slice_trees(service: Service, pods: Sequence[Pod]) -> list[Tree]:
    """Return the contents of all EndpointSlices of a Service. There is at least one, to show that no endpoints exist.

    Pods with the same IP family and ports share slices of at most `SLICE_MAX` endpoints. Every pod must have an IP.
    """
    grouped: dict[tuple[str, Ports], list[Tree]] = {}
    for pod in pods:
        family = f"IPv{ipaddress.ip_address(pod.status.podIP).version}"
        grouped.setdefault((family, ports_of(service, pod)), []).append(endpoint(service, pod))
    if not grouped:
        grouped["IPv4", ()] = []
    found = []
    for (family, ports), endpoints in sorted(grouped.items()):
        for start in range(0, max(1, len(endpoints)), SLICE_MAX):
            shown = [{"name": name, "protocol": protocol, "port": number} for name, protocol, number in ports]
            part = endpoints[start : start + SLICE_MAX]
            found.append({"addressType": family, "endpoints": part, "ports": shown})
    return found


def subsets(service: Service, pods: Sequence[Pod]) -> list[Tree]:
    """Return the subsets of a Service's Endpoints, each with ready and not ready addresses.

    Pods with the same ports share a subset. Pods that are being deleted or have a loopback address are left out.
    """
    grouped: dict[Ports, tuple[list[Tree], list[Tree]]] = {}
    for pod in pods:
        if is_deleting(pod) or ipaddress.ip_address(pod.status.podIP).is_loopback:
            continue  # Endpoints may not hold addresses of this machine alone
        address: Tree = {"ip": pod.status.podIP, "targetRef": _target(pod)}
        if pod.spec.nodeName:
            address["nodeName"] = pod.spec.nodeName
        ready = service.spec.publishNotReadyAddresses or is_ready(pod)
        grouped.setdefault(ports_of(service, pod), ([], []))[0 if ready else 1].append(address)
    found = []
    for ports, (ready_ones, others) in sorted(grouped.items()):
        shown = [{"name": name, "protocol": p, "port": number} for name, p, number in ports]
        tree = {"addresses": ready_ones, "notReadyAddresses": others, "ports": shown}
        found.append({name: value for name, value in tree.items() if value})
    return found


# Reconciling


class EndpointController:
    """Keeps EndpointSlices and Endpoints up to date with Services and pods."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client_for("endpointslice-controller")
        informers = context.informers
        self._services = informers.informer(Service)
        self._services.add_index(BY_NAMESPACE, lambda service: [service.metadata.namespace])
        self._pods = informers.informer(Pod)
        self._pods.add_index(BY_NAMESPACE, lambda pod: [pod.metadata.namespace])
        self._slices = informers.informer(EndpointSlice)
        self._slices.add_index(BY_SERVICE, _service_of)
        self._endpoints = informers.informer(Endpoints)
        self._controller = context.controller("endpointslice", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._services.add_handler(self._on_services)
        self._pods.add_handler(self._on_pods)
        self._slices.add_handler(self._on_slices)

    def _on_services(self, deltas: Deltas[Service]) -> None:
        for delta in deltas:
            self._controller.queue.add(key_of(delta.object))

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for delta in deltas:
            old, new = delta
            services = self._services.by_index(BY_NAMESPACE, delta.object.metadata.namespace)
            if not services or (old is not None and new is not None and _facts(old) == _facts(new)):
                continue
            for pod in filter(None, (old, new)):
                for service in services:
                    if selects(service, pod.metadata.labels):
                        self._controller.queue.add(key_of(service))

    def _on_slices(self, deltas: Deltas[EndpointSlice]) -> None:
        """Queue the Services of slices that were changed or deleted."""
        for old, new in deltas:
            slice_ = new or old
            if slice_ is not None and slice_.metadata.labels.get(MANAGED_BY) == MANAGER and old is not None:
                name = slice_.metadata.labels.get(SERVICE_NAME, "")
                self._controller.queue.add((slice_.metadata.namespace, name))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        service = self._services.get(namespace, name)
        slices = list(self._slices.by_index(BY_SERVICE, f"{namespace}/{name}"))
        if service is None or is_deleting(service):
            await self._drop(slices)
            with suppress(NotFound):
                if self._endpoints.get(namespace, name) is not None:
                    await self._client.delete(Endpoints, name, namespace)
            return
        if not service.spec.selector:
            return
        pods = answering(service, self._pods.by_index(BY_NAMESPACE, namespace))
        await self._keep_slices(service, slices, slice_trees(service, pods))
        await self._keep_endpoints(service, subsets(service, pods))

    async def _drop(self, slices: Iterable[EndpointSlice]) -> None:
        """Delete EndpointSlices."""
        for slice_ in slices:
            with suppress(NotFound):
                await self._client.delete(EndpointSlice, slice_.metadata.name, slice_.metadata.namespace)

    async def _keep_slices(self, service: Service, slices: list[EndpointSlice], wanted: list[Tree]) -> None:
        """Keep slices that are right, patch or create the others, and delete those that are left over."""
        left = list(slices)
        missing = []
        for tree in wanted:
            same = next((one for one in left if _content(one) == tree), None)
            if same is not None:
                left.remove(same)
            else:
                missing.append(tree)
        for tree in missing:
            reusable = next((one for one in left if one.addressType == tree["addressType"]), None)
            if reusable is not None:
                left.remove(reusable)
                meta = reusable.metadata
                await self._client.patch(EndpointSlice, meta.name, dict(tree), meta.namespace)
            else:
                await self._client.create(EndpointSlice, _slice(service, tree), namespace=service.metadata.namespace)
        await self._drop(left)

    async def _keep_endpoints(self, service: Service, wanted: list[Tree]) -> None:
        meta = service.metadata
        current = self._endpoints.get(meta.namespace, meta.name)
        if current is None:
            labels = {**meta.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
            tree = {"metadata": {"name": meta.name, "namespace": meta.namespace, "labels": labels}, "subsets": wanted}
            with suppress(AlreadyExists):
                await self._client.create(Endpoints, tree, namespace=meta.namespace)
        elif tree_of(current).get("subsets", []) != wanted:
            await self._client.patch(Endpoints, meta.name, {"subsets": wanted or None}, meta.namespace)


def _slice(service: Service, tree: Tree) -> Tree:
    meta = service.metadata
    return {
        "metadata": {
            "generateName": f"{meta.name}-",
            "namespace": meta.namespace,
            "labels": {**meta.labels, SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
            "ownerReferences": [controller_reference(service)],
        },
        **tree,
    }


def _content(slice_: EndpointSlice) -> Tree:
    tree = tree_of(slice_)
    return {"addressType": tree["addressType"], "endpoints": tree["endpoints"] or [], "ports": tree["ports"] or []}


def _service_of(slice_: EndpointSlice) -> list[str]:
    labels = slice_.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER:
        return []
    return [f"{slice_.metadata.namespace}/{labels.get(SERVICE_NAME, '')}"]


def _facts(pod: Pod) -> tuple[object, ...]:
    """Return the facts of a pod on which endpoints depend.

    These are labels, IP, whether the pod is ready, being deleted or finished, and its node's name.
    """
    return pod.metadata.labels, pod.status.podIP, is_ready(pod), is_deleting(pod), is_finished(pod), pod.spec.nodeName
