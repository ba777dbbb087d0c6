"""Where a webhook is: at the address that its configuration gives, or at a ready endpoint of the Service that it names.

Behind a Service the name that its certificate must have is `SERVICE.NAMESPACE.svc`. Left out: balancing; one of the
endpoints that are ready is taken at random.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from dray.api.types.core import Service
from dray.api.types.discovery import EndpointSlice
from dray.apiserver.read.reader import Reader, many, one

SERVICE_LABEL = "kubernetes.io/service-name"
DEFAULT_PORT = 443


class Unreachable(Exception):
    """A Service that nobody answers for, and why."""


class WebhookService(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...


class ClientConfig(Protocol):
    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> WebhookService | None: ...


class ServiceAddress(NamedTuple):
    """Where to post to, and under which name; without one, the name in the address counts."""

    url: str
    name: str = ""
    shown: str = ""  # the address in messages


def place_of(config: ClientConfig, reader: Reader) -> ServiceAddress:
    """Raises Unreachable."""
    if config.url:
        return ServiceAddress(config.url, shown=config.url)
    service = config.service
    if service is None:
        raise Unreachable("the webhook has neither a URL nor a service")
    port, path = service.port or DEFAULT_PORT, "/" + (service.path or "").lstrip("/")
    endpoints = list(_endpoints(service, port, reader))
    if not endpoints:
        raise Unreachable(f'no endpoints available for service "{service.name}"')
    address, number = random.choice(endpoints)
    host = f"[{address}]" if ":" in address else address
    name = f"{service.name}.{service.namespace}.svc"
    return ServiceAddress(f"https://{host}:{number}{path}", name, f"https://{name}:{port}{path}")


def _endpoints(reference: WebhookService, port: int, reader: Reader) -> Iterator[tuple[str, int]]:
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
                yield endpoint.addresses[0], number
