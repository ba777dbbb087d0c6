"""Functions for the spec of claims and claim templates: defaults, feature gates, and conversion of v1beta1 requests."""

from __future__ import annotations

from dray.api.trees import fill
from dray.api.wire import Tree

# v1beta1 has no `exactly`. In errors of schema rules, Kubernetes names a field as in v1beta1; in errors of rules in code,
# as in v1. Dray does the same.
FLAT_NAMES = (
    (
        r"(\brequests\[\d+\])\.exactly(\.selectors|\.allocationMode|\.tolerations\[\d+\]\.(key|operator|effect))$",
        r"\1\2",
    ),
)
_MAIN_REQUEST = (
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "derivedAttributes",
    "deviceClassName",
    "selectors",
    "tolerations",
)


def claim_defaults(spec: Tree) -> None:
    """Add the defaults to the spec of a claim, in place."""
    for request in spec.get("devices", {}).get("requests") or ():
        if request.get("exactly") is not None:
            _request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _request(alternative)


def _request(request: Tree) -> None:
    fill(request, "allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount":
        fill(request, "count", 1)
    for toleration in request.get("tolerations") or ():
        fill(toleration, "operator", "Equal")


def claim_guards(spec: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of the fields of a claim that each feature gate guards, by name of the gate.

    `spec` is the path of the claim's spec.
    """
    exactly, alternatives = f"{spec}.devices.requests[].exactly", f"{spec}.devices.requests[].firstAvailable[]"
    results = "status.allocation.devices.results[]"

    def requests(field: str) -> tuple[str, str]:
        return f"{exactly}.{field}", f"{alternatives}.{field}"

    return {
        "DRAPrioritizedList": (f"{spec}.devices.requests[].firstAvailable",),
        "DRAAdminAccess": (f"{exactly}.adminAccess", f"{results}.adminAccess"),
        "DRADeviceTaints": (*requests("tolerations"), f"{results}.tolerations"),
        "DRAConsumableCapacity": (
            *requests("capacity"),
            f"{spec}.devices.constraints[].distinctAttribute",
            f"{results}.shareID|consumedCapacity",
            "status.devices[].shareID",
        ),
        "DRADeviceBindingConditions": (
            "status.allocation.allocationTimestamp",
            f"{results}.bindingConditions|bindingFailureConditions",
        ),
        "DRADerivedAttributes": requests("derivedAttributes"),
        "DRAOptionalNodeOperations": (f"{results}.skipNodeOperations",),
        "DRAReservedForWorkloads": (f"{spec}.reservedFor", "status.allocation.reservedForAnyPod"),
    }


def unflatten(spec: Tree) -> None:
    """Move the fields of v1beta1 requests into `exactly`, as in the stored version. Changes the spec in place.

    A request whose fields are all null, 0 or empty text gets no `exactly`.
    """
    for request in spec.get("devices", {}).get("requests") or ():
        main = {name: request.pop(name) for name in _MAIN_REQUEST if name in request}
        if any(value not in (None, "", 0) or value is False for value in main.values()):
            request["exactly"] = main


def flatten(spec: Tree) -> None:
    """Move the fields in `exactly` into the request itself, as in v1beta1. Changes the spec in place."""
    for request in spec.get("devices", {}).get("requests") or ():
        request.update(request.pop("exactly", None) or {})
        request.setdefault("deviceClassName", "")
