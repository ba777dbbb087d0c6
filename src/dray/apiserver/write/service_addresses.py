"""Cluster IPs and node ports of Services: chosen before validation, held in the same commit as the Service.

Choosing uses only the cache, so two servers may choose the same address at the same moment. Therefore each address of
a Service is an IPAddress object, and each node port a key, created together with the Service. The store refuses the
second server, which chooses again. The IPAddress objects also show users which Service has which address. Addresses
come from the ServiceCIDRs; the first family of the built-in ServiceCIDR is the default.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from dray.api.errors import FieldError, InternalError, Invalid, invalid
from dray.api.paths import SPEC
from dray.api.resources import BY_TYPE
from dray.api.service_fields import (
    addresses_of,
    assigns_node_ports,
    family_of,
    is_headless,
    node_ports_of,
    takes_health_check_port,
    takes_node_ports,
)
from dray.api.types.core import Service, ServicePort
from dray.api.types.meta import ObjectMeta
from dray.api.types.networking import IPAddress, IPAddressSpec, ParentReference, ServiceCIDR
from dray.apiserver.read.storage import written
from dray.apiserver.security.authorization.bootstrap import API_SERVICE, SERVICE_RANGE
from dray.apiserver.write.address_ranges import AddressRange, TakenAddress, canonical
from dray.apiserver.write.identity import new_uid, now
from dray.apiserver.write.service_families import with_families
from dray.store import Cache, KeyVersion, Op

SERVICES, ADDRESSES, RANGES = BY_TYPE[Service], BY_TYPE[IPAddress], BY_TYPE[ServiceCIDR]
NODE_PORTS = "servicenodeports/"
FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767
_MANAGED_BY, _MANAGER = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
_TRIES = 16  # random node ports to try before listing all free ones
_random = random.SystemRandom()
ServiceVersion: TypeAlias = Service | None


class ServiceAddresses:
    """Chooses addresses and ports for Services, and computes the writes that belong to a Service."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    # Choosing

    def assign(self, service: Service, old: ServiceVersion = None) -> Service:
        """Return a Service with address families, cluster IPs and node ports. `old` is None for a new Service.

        Raises Invalid if a requested value is unavailable, InternalError if no address or port is free.
        """
        ranges = self._ranges()
        service = with_families(service, old, tuple(dict.fromkeys(one.family for one in ranges)))
        service = self._with_addresses(service, addresses_of(old), ranges)
        return self._with_node_ports(service, node_ports_of(old))

    def _ranges(self) -> list[AddressRange]:
        """Return the address ranges, those of the built-in ServiceCIDR first.

        ServiceCIDRs that are being deleted are left out.
        """
        found = [
            version.object
            for version in self._cache.list(RANGES.prefix).versions
            if version.object.metadata.deletionTimestamp is None
        ]
        found.sort(key=lambda one: (one.metadata.name != SERVICE_RANGE, one.metadata.name))
        return [AddressRange(text) for one in found for text in one.spec.cidrs]

    def _with_addresses(self, service: Service, held: frozenset[str], ranges: list[AddressRange]) -> Service:
        """Return the Service with one cluster IP per family. Headless and ExternalName Services stay unchanged.

        `held` are the addresses that the Service already has, which it keeps. Raises Invalid or InternalError.
        """
        spec = service.spec
        if spec.type == "ExternalName" or is_headless(spec):
            return service
        addresses = []
        for index, family in enumerate(spec.ipFamilies):
            asked = spec.clusterIPs[index] if index < len(spec.clusterIPs) else ""
            usable = [one for one in ranges if one.family == family]
            addresses.append(asked if asked in held else self._address(service, asked, usable))
        return replace(service, spec=replace(spec, clusterIP=addresses[0], clusterIPs=tuple(addresses)))

    def _address(self, service: Service, asked: str, ranges: list[AddressRange]) -> str:
        """Return the requested address, or a free one if `asked` is empty.

        Raises Invalid if the requested address cannot be used, InternalError if none is free.
        """
        try:
            if asked:
                return self._requested(asked, ranges)
            return self._free_address(ranges)
        except TakenAddress as error:
            if not asked:
                raise InternalError(f"failed to allocate a serviceIP: {error}") from error
            text = f"failed to allocate IP {asked}: {error}"
            raise _refused(service, invalid(SPEC / "clusterIPs", list(service.spec.clusterIPs), text)) from error

    def _requested(self, asked: str, ranges: list[AddressRange]) -> str:
        """Return the requested address.

        Raises TakenAddress if the address is in no range, reserved in its range, or not free.
        """
        usable = next((one for one in ranges if one.spans(asked)), None)
        if usable is None:
            raise TakenAddress("the provided network does not match the current range")
        usable.check(asked)
        if self._is_taken(asked):
            raise TakenAddress("provided IP is already allocated")
        return asked

    def _free_address(self, ranges: list[AddressRange]) -> str:
        """Return a free address. Raises TakenAddress if the ranges are full."""
        for usable in ranges:
            if (found := usable.free(self._is_taken)) is not None:
                return found
        raise TakenAddress("range is full")

    def _is_taken(self, address: str) -> bool:
        return self._cache.get(ADDRESSES.key("", canonical(address))) is not None

    # Node ports

    def _with_node_ports(self, service: Service, held: frozenset[int]) -> Service:
        """Return the Service with node ports, or unchanged if its type takes none.

        `held` are the ports that the Service already has, which need no check. Ports of one number and several
        protocols share a node port unless they request others.
        """
        spec = service.spec
        if not takes_node_ports(spec):
            return service
        taken = set(held)
        asked = {port.port: port.nodePort for port in reversed(spec.ports) if port.nodePort}
        named = {port.nodePort for port in spec.ports}
        ports: list[ServicePort] = []
        for index, port in enumerate(spec.ports):
            number = port.nodePort
            if number and number not in taken:
                self._check_port(service, number, f"spec.ports[{index}].nodePort")
            elif not number and assigns_node_ports(spec):
                shared = asked.get(port.port, 0)
                is_free = shared and (port.protocol, shared) not in {(one.protocol, one.nodePort) for one in ports}
                number = shared if is_free else self._free_port(taken | named, "failed to allocate a nodePort")
                asked.setdefault(port.port, number)
            taken.add(number)
            ports.append(replace(port, nodePort=number))
        spec = replace(spec, ports=tuple(ports))
        return replace(service, spec=replace(spec, healthCheckNodePort=self._health_check_port(service, taken)))

    def _health_check_port(self, service: Service, taken: set[int]) -> int:
        """Return the health check node port: the present one, or a free one if the Service needs one and has none.

        `taken` are ports that are neither chosen nor checked. Raises InternalError if no port is free or the present
        one cannot be used.
        """
        spec = service.spec
        number = spec.healthCheckNodePort
        if not takes_health_check_port(spec) or number in taken:
            return number
        if not number:
            return self._free_port(taken, "failed to allocate a HealthCheck NodePort 0")
        if (problem := self._problem_of(number)) is not None:
            raise InternalError(f"failed to allocate requested HealthCheck NodePort {number}: {problem}")
        return number

    def _check_port(self, service: Service, number: int, path: str) -> None:
        """Raise Invalid if a requested node port is out of range or in use."""
        if (problem := self._problem_of(number)) is not None:
            raise _refused(service, invalid(path, number, problem))

    def _problem_of(self, number: int) -> str | None:
        """Return why a node port cannot be requested, or None if it can."""
        if not FIRST_NODE_PORT <= number <= LAST_NODE_PORT:
            valid = f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
            return f"provided port is not in the valid range. The range of valid ports is {valid}"
        return "provided port is already allocated" if self._cache.get(_port_key(number)) is not None else None

    def _free_port(self, taken: set[int], complaint: str) -> int:
        """Return a free node port that is not in `taken`. Raises InternalError if there is none."""

        def is_free(number: int) -> bool:
            return number not in taken and self._cache.get(_port_key(number)) is None

        for _ in range(_TRIES):
            if is_free(number := _random.randint(FIRST_NODE_PORT, LAST_NODE_PORT)):
                return number
        free = [number for number in range(FIRST_NODE_PORT, LAST_NODE_PORT + 1) if is_free(number)]
        if not free:
            raise InternalError(f"{complaint}: range is full")
        return _random.choice(free)

    # Holding

    def ops(self, old: ServiceVersion, new: ServiceVersion) -> list[Op]:
        """Return the writes of addresses and node ports when a Service changes from `old` to `new`.

        `old` is None for a new Service, `new` for a deleted one.
        """
        service = new or old
        if service is None:
            return []
        had, has = addresses_of(old), addresses_of(new)
        had_ports, has_ports = node_ports_of(old), node_ports_of(new)
        return [
            *(self._release(key, service) for key in self._held_by(service, had - has, had_ports - has_ports)),
            *(_address_op(address, service) for address in sorted(has - had)),
            *(Op(_port_key(number), _owner(service), 0) for number in sorted(has_ports - had_ports)),
        ]

    def _held_by(self, service: Service, addresses: Iterable[str], ports: Iterable[int]) -> Iterator[str]:
        """Yield the keys of the given addresses and ports that this Service holds."""
        for address in sorted(addresses):
            key = ADDRESSES.key("", canonical(address))
            version = self._cache.get(key)
            if version is not None and _is_parent(version.object, service):
                yield key
        for number in sorted(ports):
            version = self._cache.get(_port_key(number))
            if version is not None and version.value == _owner(service):
                yield _port_key(number)

    def _release(self, key: str, service: Service) -> Op:
        """Return the deletion of a key, on condition that its revision is unchanged."""
        version = self._cache.get(key)
        return Op(key, None, version.revision if version is not None else 0)

    def repairs(self) -> Iterator[list[Op]]:
        """Yield the writes, one commit at a time, that make Services and held addresses match again.

        Services from dray versions without address allocation get addresses. If two such Services have the same
        address, the first holds it.
        """
        services = [version for version in self._cache.list(SERVICES.prefix).versions if not _is_own(version.object)]
        if orphans := self._orphans([version.object for version in services]):
            yield orphans
        for version in services:
            if ops := self._missing(version):
                yield ops

    def _missing(self, version: KeyVersion) -> list[Op]:
        """Return the writes that give a stored Service its missing addresses, ports and holds."""
        try:
            service = self.assign(version.object, version.object)
        except (Invalid, InternalError):  # none is free: the next write of the Service reports it
            service = version.object
        ops = [op for op in self.ops(None, service) if self._cache.get(op.key) is None]
        if service != version.object:
            ops.append(written(version.key, service, expected=version.revision))
        return ops

    def _orphans(self, services: Iterable[Service]) -> list[Op]:
        """Return the deletions of addresses and ports held for Services that no longer exist."""
        keys = {
            key for service in services for key in self._held_by(service, addresses_of(service), node_ports_of(service))
        }
        held = [
            *(one for one in self._cache.list(ADDRESSES.prefix).versions if _is_managed(one.object)),
            *self._cache.list(NODE_PORTS).versions,
        ]
        return [Op(version.key, None, version.revision) for version in held if version.key not in keys]


def _is_own(service: Service) -> bool:
    """Return whether a Service is default/kubernetes, which has the server's real address, outside every range."""
    return (service.metadata.namespace, service.metadata.name) == ("default", API_SERVICE)


def _is_managed(address: IPAddress) -> bool:
    """Return whether an IPAddress was created by the allocator."""
    return address.metadata.labels.get(_MANAGED_BY) == _MANAGER


def _refused(service: Service, error: FieldError) -> Invalid:
    return Invalid(SERVICES, service.metadata.name, [error])


def _port_key(number: int) -> str:
    return f"{NODE_PORTS}{number}"


def _owner(service: Service) -> bytes:
    return f"{service.metadata.namespace}/{service.metadata.name}".encode()


def _is_parent(address: Any, service: Service) -> bool:
    """Return whether an IPAddress belongs to a Service."""
    parent, metadata = address.spec.parentRef, service.metadata
    return parent is not None and (parent.resource, parent.namespace, parent.name) == (
        SERVICES.plural,
        metadata.namespace,
        metadata.name,
    )


def _address_op(address: str, service: Service) -> Op:
    """Return the creation of the IPAddress object for an address of a Service."""
    name, metadata = canonical(address), service.metadata
    labels = {"ipaddress.kubernetes.io/ip-family": family_of(name), _MANAGED_BY: _MANAGER}
    parent = ParentReference(resource=SERVICES.plural, namespace=metadata.namespace, name=metadata.name)
    held = IPAddress(
        apiVersion="networking.k8s.io/v1",
        kind="IPAddress",
        metadata=ObjectMeta(name=name, uid=new_uid(), creationTimestamp=now(), labels=labels),
        spec=IPAddressSpec(parentRef=parent),
    )
    return written(ADDRESSES.key("", name), held, expected=0)
