"""What claims and the templates of claims have in common: defaults, guarded fields, and the flat requests of v1beta1."""

from __future__ import annotations

from dray.api.trees import fill
from dray.api.wire import Tree

# v1beta1 has no `exactly`. Kubernetes calls a field as the client does where the rule stands in the schema, and as v1
# does where it stands in code; so do we.
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
    """Fill in the spec of a claim."""
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
    """Returns what feature gates guard in a claim with its spec at a path."""
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
    """v1beta1 says the main request's fields beside `firstAvailable`, the stored form under `exactly`."""
    for request in spec.get("devices", {}).get("requests") or ():
        main = {name: request.pop(name) for name in _MAIN_REQUEST if name in request}
        if any(value not in (None, "", 0) or value is False for value in main.values()):
            request["exactly"] = main


def flatten(spec: Tree) -> None:
    """Write requests as v1beta1 does."""
    for request in spec.get("devices", {}).get("requests") or ():
        request.update(request.pop("exactly", None) or {})
        request.setdefault("deviceClassName", "")
