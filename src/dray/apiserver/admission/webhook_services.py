"""Find the address of a webhook: its URL, or a ready endpoint of its Service.

For a Service, the certificate must be issued for `SERVICE.NAMESPACE.svc`. A ready endpoint is chosen at random. Pods
that no real node runs are not called: their addresses are invented, and the owner of such an address in the real
network would receive the request.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from dray.api.simulated import BENCHMARKING, is_reserved, runs_no_pods
from dray.api.types.core import Node, Pod, Service
from dray.api.types.discovery import Endpoint, EndpointSlice
from dray.apiserver.read.reader import Reader, many, one

SERVICE_LABEL = "kubernetes.io/service-name"
DEFAULT_PORT = 443
_NAMED = 3  # endpoints listed in a message
_RESERVED = f"addresses of {BENCHMARKING} are made up and not connected to"


class Unreachable(Exception):
    """A webhook without a usable address. The text has the reason."""


class WebhookService(Protocol):
    """Service reference of a webhook configuration."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...


class ClientConfig(Protocol):
    """Address of a webhook in its configuration: a URL or a Service."""

    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> WebhookService | None: ...


class ServiceAddress(NamedTuple):
    """URL to post to, and the server name; if the name is empty, the host of the URL counts."""

    url: str
    name: str = ""
    shown: str = ""  # address in messages


def place_of(config: ClientConfig, reader: Reader) -> ServiceAddress:
    """Return the address of a webhook: its URL, or a random ready endpoint of its Service.

    Raises Unreachable if there is neither, no endpoint is ready, or the address is reserved.
    """
    if config.url:
        if is_reserved(urlsplit(config.url).hostname or ""):
            raise Unreachable(f'Post "{config.url}": {_RESERVED}')
        return ServiceAddress(config.url, shown=config.url)
    service = config.service
    if service is None:
        raise Unreachable("the webhook has neither a URL nor a service")
    port, path = service.port or DEFAULT_PORT, "/" + (service.path or "").lstrip("/")
    ready = list(_endpoints(service, port, reader))
    unrun = {endpoint.addresses[0]: why for endpoint, _ in ready if (why := _not_run(endpoint, service, reader))}
    endpoints = [(endpoint.addresses[0], number) for endpoint, number in ready if endpoint.addresses[0] not in unrun]
    if not endpoints:
        raise Unreachable(f'no endpoints available for service "{service.name}"{_listed([*unrun.values()])}')
    address, number = random.choice(endpoints)
    host = f"[{address}]" if ":" in address else address
    name = f"{service.name}.{service.namespace}.svc"
    return ServiceAddress(f"https://{host}:{number}{path}", name, f"https://{name}:{port}{path}")


def _endpoints(reference: WebhookService, port: int, reader: Reader) -> Iterator[tuple[Endpoint, int]]:
    """Yield the endpoints of a Service that are not unready and have an address, each with its port number.

    Raises Unreachable if the Service or its port does not exist.
    """
    service = one(reader, Service, reference.namespace, reference.name)
    if service is None:
        raise Unreachable(f'service "{reference.name}" not found')
    wanted = next((known.name for known in service.spec.ports if known.port == port), None)
    if wanted is None:
        raise Unreachable(f'no service port {port} found for service "{reference.name}"')
    for slice_ in many(reader, EndpointSlice, reference.namespace):
        if slice_.metadata.labels.get(SERVICE_LABEL) != reference.name:
            continue
        number = next((known.port for known in slice_.ports or () if (known.name or "") == wanted), None)
        for endpoint in slice_.endpoints or ():
            if endpoint.conditions.ready is not False and endpoint.addresses and number is not None:
                yield endpoint, number


def _not_run(endpoint: Endpoint, service: WebhookService, reader: Reader) -> str:
    """Return why the pod of an endpoint does not really run, or "" if it does."""
    target, address = endpoint.targetRef, endpoint.addresses[0]
    is_pod = target is not None and target.kind == "Pod"
    pod = one(reader, Pod, target.namespace or service.namespace, target.name) if target and is_pod else None
    shown = f"pod {target.name}" if target and is_pod else f"endpoint {address}"
    name = endpoint.nodeName or (pod.spec.nodeName if pod is not None else "")
    if name:
        node = one(reader, Node, "", name)
        if node is None:
            return f"{shown}: node {name} does not exist"
        if why := runs_no_pods(node.metadata.labels, node.metadata.annotations):
            return f"{shown}: node {name} {why}"
    return f"{shown}: {_RESERVED}" if is_reserved(address) else ""


def _listed(unrun: list[str]) -> str:
    """Return the part of a message that lists endpoints without running pods; "" if `unrun` is empty."""
    if not unrun:
        return ""
    more = f", and {len(unrun) - _NAMED} more" if len(unrun) > _NAMED else ""
    return f": nothing runs its pods ({'; '.join(unrun[:_NAMED])}{more})"
