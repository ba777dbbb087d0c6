"""Names of resources that nodes have and containers request, and which amounts of them are valid."""

from __future__ import annotations

from dray.api import names
from dray.api.errors import invalid
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.remembered import remembered
from dray.api.rules import Errors, named

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
STANDARD_RESOURCES = frozenset(
    {
        *_CONTAINER_RESOURCES,
        *(f"{part}.{name}" for part in ("limits", "requests") for name in _CONTAINER_RESOURCES),
        *("storage", "requests.storage", "persistentvolumeclaims"),
        *("configmaps", "pods", "replicationcontrollers", "resourcequotas", "secrets"),
        *("services", "services.loadbalancers", "services.nodeports"),
    }
)
STANDARD_PREFIXES = ("hugepages-", "requests.hugepages-")
_NATIVE_DOMAIN = "kubernetes.io/"


def is_valid(name: str, amount: str) -> bool:
    """Return whether `resource` has no errors for a resource and its amount, which most containers repeat.

    Raises QuantityError if the amount is not a quantity.
    """
    quantity = Quantity.parse(amount)
    return _is_valid_name(name) and quantity.sign >= 0 and (quantity.is_whole() or not is_extended(name))


@remembered(1024)
def _is_valid_name(name: str) -> bool:
    return not any(resource_name(name, Path("")))


def resource(name: str, amount: str, path: Path) -> Errors:
    """Yield errors in one resource of a container and its amount."""
    yield from resource_name(name, path)
    quantity = Quantity.parse(amount)
    if quantity.sign < 0:
        yield invalid(path, amount, "must be greater than or equal to 0")
    if not quantity.is_whole() and is_extended(name):
        yield invalid(path, amount, "must be an integer")


def resource_name(name: str, path: Path) -> Errors:
    """Yield errors if the name is not that of a container resource."""
    yield from any_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def any_resource_name(name: str, path: Path) -> Errors:
    """Yield errors if the name is neither a standard resource nor qualified by a domain."""
    faults = [*named(name, path, names.qualified_name)]
    yield from faults
    if not faults and "/" not in name and name not in STANDARD_RESOURCES and not name.startswith(STANDARD_PREFIXES):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended resource, which has integer amounts."""
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


@remembered(1024)
def may_overcommit(name: str) -> bool:
    """Return whether the limits of a resource can exceed the available amount."""
    return _is_native(name) and not name.startswith("hugepages-")


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_DOMAIN in name
