"""ResourceClaim: requests devices and records the allocated ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.api import names, paths
from dray.api.allocations import node_of
from dray.api.cells import NONE
from dray.api.claimspecs import FLAT_NAMES, claim_defaults, claim_guards, flatten, unflatten
from dray.api.columns import AGE, NAME, text, wide
from dray.api.conversion import WorkloadLookup
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.gates import FeatureGates
from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, STATUS, KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, at_most_bytes, checked, each, named, required_name, unique, within
from dray.api.trees import fill
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.nodes import node_selector
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


ALTERNATIVES_MAX = 8
RESERVATIONS_MAX = 256
DEVICE_DATA_MAX = 10 * 1024
IPS_MAX = 16
_ALLOCATION = paths.STATUS / "allocation"
_RESERVED_FOR = paths.STATUS / "reservedFor"
_RESERVATION = "io.k8s.api.resource.v1.ResourceClaimConsumerReference"
_DEVICE_STATUS = "io.k8s.api.resource.v1.AllocatedDeviceStatus"
MODES = ("All", "ExactCount")
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_NO_ALTERNATIVES = "; `firstAvailable` is ignored while the feature gate DRAPrioritizedList is off"
_ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
# Name of each request → names of its alternatives.
RequestNames = Mapping[str, frozenset[str]]


def _state(claim: resource.ResourceClaim) -> str:
    """Return `pending`, `allocated` or `allocated,reserved`; if the claim is being deleted, with `deleted` first."""
    deleted, allocated = claim.metadata.deletionTimestamp is not None, claim.status.allocation is not None
    states = ["deleted"] if deleted else []
    if allocated:
        states.append("allocated")
        if claim.status.reservedFor:
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _devices(claim: resource.ResourceClaim) -> str:
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    return ",".join(f"{result.driver}/{result.pool}/{result.device}" for result in results)


def _defaults(tree: Tree) -> None:
    claim_defaults(tree.setdefault("spec", {}))
    allocation = (tree.get("status") or {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results") or ():
        for toleration in result.get("tolerations") or ():
            fill(toleration, "operator", "Equal")


def _forget_devices(tree: Tree, old: resource.ResourceClaim) -> None:
    """Remove the status of devices that are no longer allocated.

    A client that omits `reservedForAnyPod` from an allocation does not know the field; its old value is kept.
    """
    status = tree.setdefault("status", {})
    if old.status.allocation is None:
        return
    allocation = status.get("allocation") or {}
    if allocation and old.status.allocation.reservedForAnyPod:
        allocation.setdefault("reservedForAnyPod", True)
    devices = status.get("devices")
    if not devices:
        return
    before = {(result.driver, result.pool, result.device) for result in old.status.allocation.devices.results}
    kept = {_device(result) for result in (allocation.get("devices") or {}).get("results") or ()}
    status["devices"] = [device for device in devices if _device(device) not in before - kept]


def _device(item: Tree) -> tuple[str, str, str]:
    return item.get("driver", ""), item.get("pool", ""), item.get("device", "")


def _settles(status: resource.ResourceClaimStatus, old: resource.ResourceClaimStatus, gates: FeatureGates) -> bool:
    allocation = status.allocation
    if allocation is old.allocation or allocation == old.allocation:
        return True
    if status.devices and old.allocation is not None:
        return False  # the device status of deallocated devices must be removed
    return allocation is None or not (_is_guarded(allocation) or (old.allocation and _is_guarded(old.allocation)))


def _is_guarded(allocation: resource.AllocationResult) -> bool:
    """Return whether an allocation has a field that depends on a feature gate."""
    if allocation.reservedForAnyPod is not None:
        return True
    return any(
        result.adminAccess is not None or result.tolerations or result.skipNodeOperations
        for result in allocation.devices.results
    )


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    unflatten(tree.get("spec", {}))


def _from_stored(tree: Tree) -> None:
    flatten(tree.get("spec", {}))


KIND = Resource(
    resource.ResourceClaim,
    versions=DRA_VERSIONS,
    subresources=STATUS,
    gate="DynamicResourceAllocation",
    columns=(
        NAME,
        text("State", _state),
        AGE,
        wide("Devices", _devices, NONE),
        wide("Node", lambda claim: node_of(claim.status.allocation), NONE),
    ),
    deprecated=DRA_DEPRECATED,
    rules=KindRules(
        update="", order=("metadata", "changes", "rules"), subresources={"status": "resource_claim.update_claim_status"}
    ),
    error_names={"v1beta1": FLAT_NAMES},
    more_defaults=_defaults,
    guards=claim_guards("spec"),
    on_update={"status": _forget_devices},
    settles=_settles,
    to_stored={"v1beta1": _to_stored},
    from_stored={"v1beta1": _from_stored},
    is_returned_when_deleted=True,
)


def claim_spec(
    spec: resource.ResourceClaimSpec, old: resource.ResourceClaimSpec | None, path: Path, context: Context
) -> Errors:
    claim, path_devices = spec.devices, path / "devices"
    known = request_names(claim)

    def constraint(item: resource.DeviceConstraint, here: Path) -> Errors:
        yield from _references(item.requests, here / "requests", known)
        yield from _constraint_attribute(item, here)

    def config(item: resource.DeviceClaimConfiguration, here: Path) -> Errors:
        yield from _references(item.requests, here / "requests", known)
        yield from devices.opaque(item.opaque, here)

    def request(item: resource.DeviceRequest, here: Path) -> Errors:
        yield from _request(item, here, claim, context)

    yield from each(within(claim.requests, devices.LIST_MAX), path_devices / "requests", request)
    yield from each(within(claim.constraints, devices.LIST_MAX), path_devices / "constraints", constraint)
    yield from each(within(claim.config, devices.LIST_MAX), path_devices / "config", config)
    if spec.reservedFor is not None:
        yield from checked(_RESERVATION, spec.reservedFor, path / "reservedFor")


def request_names(claim: resource.DeviceClaim) -> RequestNames:
    """Return the names of a claim's requests, each with the names of its alternatives."""
    return {
        request.name: frozenset(alternative.name for alternative in request.firstAvailable)
        for request in claim.requests or ()
    }


def _request(request: resource.DeviceRequest, path: Path, claim: resource.DeviceClaim, context: Context) -> Errors:
    yield from named(request.name, path / "name", names.label)
    if request.exactly is not None and request.firstAvailable:
        yield invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")
    elif request.exactly is not None:
        yield from _demand(request.exactly, path / "exactly", request.name, claim, context)
    elif request.firstAvailable:
        yield from _alternatives(request, path / "firstAvailable", claim, context)
    else:
        is_off = not context.gates.served("DRAPrioritizedList")
        yield required(path, f"{_ONE_KIND}{_NO_ALTERNATIVES if is_off else ''}")


def _alternatives(request: resource.DeviceRequest, path: Path, claim: resource.DeviceClaim, context: Context) -> Errors:
    def alternative(item: resource.DeviceSubRequest, here: Path) -> Errors:
        yield from named(item.name, here / "name", names.label)
        yield from _demand(item, here, f"{request.name}/{item.name}", claim, context)

    yield from each(within(request.firstAvailable, ALTERNATIVES_MAX), path, alternative)


def _demand(
    demand: resource.ExactDeviceRequest | resource.DeviceSubRequest,
    path: Path,
    name: str,
    claim: resource.DeviceClaim,
    context: Context,
) -> Errors:
    """Yield errors in the fields that requests and alternatives have in common."""
    if isinstance(demand, resource.ExactDeviceRequest):  # for an alternative, a schema constraint checks it
        yield from required_name(demand.deviceClassName, path / "deviceClassName", names.subdomain)
    yield from devices.selectors(demand.selectors, path / "selectors", context)
    yield from _derived(demand.derivedAttributes, path / "derivedAttributes", name, claim, context)
    yield from _mode(demand.allocationMode, demand.count, path)
    yield from devices.tolerations(demand.tolerations, path / "tolerations")


def _mode(mode: str, count: int, path: Path) -> Errors:
    if mode == "All":
        if count:
            yield invalid(path / "count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            yield invalid(path / "count", count, "must be greater than zero")
    elif not mode:
        yield unsupported(path / "allocationMode", mode, MODES)


def _derived(
    items: tuple[resource.DeviceDerivedAttribute, ...],
    path: Path,
    name: str,
    claim: resource.DeviceClaim,
    context: Context,
) -> Errors:
    """Yield errors in derived attributes; each must be used by a constraint."""
    if not within(items, devices.LIST_MAX):
        return
    used = {
        attribute
        for constraint in claim.constraints
        for attribute in (constraint.matchAttribute or constraint.distinctAttribute,)
        if not constraint.requests or {name, name.partition("/")[0]} & set(constraint.requests)
    }
    text = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
    for index, item in enumerate(items):
        if item.name and item.name not in used:
            yield invalid(path / index / "name", item.name, text)
    yield from unique(items, path, lambda item: item.name)
    yield from _expressions(items, path, context)


def _expressions(items: tuple[resource.DeviceDerivedAttribute, ...], path: Path, context: Context) -> Errors:
    """Yield errors for expressions that do not compile, or if those of a request together exceed the cost limit.

    Empty expressions are ignored here. Nothing is checked after the limit is exceeded.
    """
    total = 0
    for index, item in enumerate(items):
        here = path / index / "expression"
        if not item.expression:
            continue
        too_long = [*at_most_bytes(item.expression, devices.SELECTOR_MAX, here)]
        yield from too_long
        complaint, cost = (None, 0) if too_long else context.check_derived(item.expression)
        if complaint is not None:
            yield from devices.complained(complaint, item.expression, here)
        elif (total := total + cost) > devices.DERIVED_COST_MAX:
            yield forbidden(here, "too complex, exceeds cost limit of all derived attributes together")
            return


def _constraint_attribute(constraint: resource.DeviceConstraint, path: Path) -> Errors:
    """Yield an error if a constraint has no attribute. As in Kubernetes, two attributes are not reported here."""
    if constraint.matchAttribute is None and constraint.distinctAttribute is None:
        yield required(path, _ONE_ATTRIBUTE)


def _references(items: tuple[str, ...], path: Path, known: RequestNames) -> Errors:
    def reference(name: str, here: Path) -> Errors:
        yield from _reference(name, here, known)

    yield from each(within(items, devices.LIST_MAX), path, reference)


def _reference(name: str, path: Path, known: RequestNames) -> Errors:
    """Yield errors if the name is not that of a request, or of a request and one of its alternatives.

    With an alternative, the name has the form request/alternative. `known` has the alternatives by name of the
    request.
    """
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        yield invalid(path, name, _NO_REQUEST)
        return
    for part in (request, alternative) if slash else (request,):
        yield from named(part, path, names.label)
    if request not in known or (slash and alternative not in known[request]):
        yield invalid(path, name, _NO_REQUEST)


def update_claim_status(claim: resource.ResourceClaim, old: resource.ResourceClaim, context: Context) -> Errors:
    status, before = claim.status, old.status
    if status.reservedFor:
        yield from _reservations(status, before, bool(claim.metadata.deletionTimestamp))
    if status.devices:
        yield from _device_statuses(status)
    if status.reservedFor and status.allocation is None:
        yield forbidden(_RESERVED_FOR, "may not be specified when `allocated` is not set")
    if status.allocation is None:
        return
    if before.allocation is None:
        yield from _allocation(status.allocation, _ALLOCATION, request_names(claim.spec.devices))


def _reservations(status: resource.ResourceClaimStatus, before: resource.ResourceClaimStatus, deleting: bool) -> Errors:
    for index, item in enumerate(within(status.reservedFor, RESERVATIONS_MAX)):
        yield from checked(_RESERVATION, item, _RESERVED_FOR / index)
    if (
        deleting
        and status.allocation is not None
        and any(item not in before.reservedFor for item in status.reservedFor)
    ):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden(_RESERVED_FOR, text)


def _allocation(allocation: resource.AllocationResult, path: Path, known: RequestNames) -> Errors:
    """Yield errors in a new allocation. Stored allocations are not validated again."""

    def result(item: resource.DeviceRequestAllocationResult, here: Path) -> Errors:
        yield from _result(item, here, known)

    def config(item: resource.DeviceAllocationConfiguration, here: Path) -> Errors:
        yield from _references(item.requests, here / "requests", known)
        yield from devices.opaque(item.opaque, here)

    for index, item in enumerate(within(allocation.devices.results, devices.LIST_MAX)):
        if not _is_plain(item, known):
            yield from result(item, path / "devices" / "results" / index)
    if allocation.devices.config:
        yield from each(within(allocation.devices.config, 2 * devices.LIST_MAX), path / "devices" / "config", config)
    if allocation.nodeSelector is not None:
        yield from node_selector(allocation.nodeSelector, path / "nodeSelector")


def _is_plain(item: resource.DeviceRequestAllocationResult, known: RequestNames) -> bool:
    """Return whether a result is valid at first glance, as most are: a device for a request without alternatives."""
    return item.request in known and not (
        names.label(item.request)
        or names.label(item.device)
        or item.bindingConditions
        or item.bindingFailureConditions
        or item.tolerations
        or item.skipNodeOperations
    )


def _result(item: resource.DeviceRequestAllocationResult, path: Path, known: RequestNames) -> Errors:
    yield from _reference(item.request, path / "request", known)
    yield from named(item.device, path / "device", names.label)
    if item.bindingConditions or item.bindingFailureConditions:
        yield from devices.binding_conditions(item.bindingConditions, item.bindingFailureConditions, path)
    if item.tolerations:
        yield from devices.tolerations(item.tolerations, path / "tolerations")
    if item.skipNodeOperations:
        yield from devices.skipped_operations(item.skipNodeOperations, path / "skipNodeOperations")


def _device_statuses(status: resource.ResourceClaimStatus) -> Errors:
    allocation = status.allocation
    allocated = {_device_key(result) for result in allocation.devices.results} if allocation else set()

    def check(item: resource.AllocatedDeviceStatus, here: Path) -> Errors:
        yield from _device_status(item, here)
        if _device_key(item) not in allocated:
            yield invalid(here, "/".join(filter(None, _device_key(item))), "must be an allocated device in the claim")

    yield from each(status.devices, paths.STATUS / "devices", check)


def _device_key(item: resource.DeviceRequestAllocationResult | resource.AllocatedDeviceStatus) -> tuple[str, ...]:
    return item.driver, item.pool, item.device, item.shareID or ""


def _device_status(item: resource.AllocatedDeviceStatus, path: Path) -> Errors:
    yield from checked(_DEVICE_STATUS, item, path)
    if item.data is not None:
        yield from devices.raw_object(item.data, path / "data", DEVICE_DATA_MAX)
    if item.networkData is not None:
        yield from _network(item.networkData, path / "networkData")


def _network(data: resource.NetworkDeviceData, path: Path) -> Errors:
    yield from each(within(data.ips, IPS_MAX), path / "ips", _interface_address)


def _interface_address(address: str, path: Path) -> Errors:
    """Yield an error if the text is not an address with prefix length in canonical form, such as `10.9.8.7/24`."""
    try:
        canonical = str(ipaddress.ip_interface(address)) if "/" in address else ""
    except ValueError:
        canonical = ""
    if not canonical:
        text = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        yield invalid(path, address, text)
    elif canonical != address:
        yield invalid(path, address, f'must be in canonical form ("{canonical}")')
