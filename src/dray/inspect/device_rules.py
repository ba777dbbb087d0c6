"""Lint rules about claims, templates and classes: selectors, alternatives and constraints that cannot be satisfied.

With the devices of a cluster, "may fail" becomes "fails on these devices". Left out: errors that the API server
reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.reasons.cause_wording import selector_fault
from dray.api.types.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ResourceClaim,
)
from dray.inspect.asking import Ask, asks_of, expressions
from dray.inspect.expressions import AttributeAccess, accesses
from dray.inspect.findings import Finding, Level
from dray.inspect.hardware import Hardware, alike, matching
from dray.inspect.selectors import fault_of, missing_name
from dray.inspect.snapshot import Snapshot


def class_findings(place: str, class_: DeviceClass, known: Snapshot) -> Iterator[Finding]:
    """Yield findings for the selectors of a class, checked against all devices of the cluster.

    `place` says where the document is, for the findings.
    """
    hardware = Hardware(known.pools)
    subject = f"DeviceClass {class_.metadata.name}"
    for number, expression in enumerate(expressions(class_.spec.selectors)):
        field = f"spec.selectors[{number}].cel.expression"
        yield from _selector(place, field, subject, expression, (), hardware)


def claim_findings(place: str, root: str, claim: ResourceClaim, known: Snapshot, connected: bool) -> Iterator[Finding]:
    """Yield findings for all requests and constraints of a claim.

    `root` is the path of the devices field in the document. `connected` is whether `known` has the objects of a
    cluster.
    """
    hardware = Hardware(known.pools)
    requests = claim.spec.devices.requests or ()
    asks = asks_of(claim, known)
    for number, request in enumerate(requests):
        where = f"{root}.requests[{number}]"
        for field, ask in _fields(where, request, asks):
            yield from _class(place, field, ask, known, connected)
            for at, expression in enumerate(ask.selectors):
                selector = f"{field}.selectors[{at}].cel.expression"
                yield from _selector(place, selector, ask.label, expression, ask.of_class, hardware)
        yield from _unreachable(place, where, request, claim.spec.devices.constraints)
    for number, constraint in enumerate(claim.spec.devices.constraints):
        yield from _constraint(place, f"{root}.constraints[{number}]", constraint, claim, hardware)


def _fields(where: str, request: DeviceRequest, asks: dict[str, Ask]) -> Iterator[tuple[str, Ask]]:
    """Yield each alternative of a request with its field path."""
    if request.exactly is not None:
        yield f"{where}.exactly", asks[request.name]
    for number, sub in enumerate(request.firstAvailable):
        yield f"{where}.firstAvailable[{number}]", asks[f"{request.name}/{sub.name}"]


def _class(place: str, field: str, ask: Ask, known: Snapshot, connected: bool) -> Iterator[Finding]:
    """Yield a finding if the device class of a request does not exist.

    The finding is an error with `connected`, else a hint, which needs other known classes. Yields nothing if classes
    may not be listed.
    """
    if known.hides(DeviceClass):
        return
    if ask.class_name and ask.class_name not in known.classes and (connected or known.classes):
        meant = alike(ask.class_name, known.classes)
        hint = f", did you mean {meant}?" if meant else ""
        level: Level = "error" if connected else "hint"
        text = f"{ask.label}: there is no DeviceClass {ask.class_name}{hint}"
        yield Finding(level, place, f"{field}.deviceClassName", text)


# Selectors


def _selector(
    place: str, field: str, subject: str, expression: str, of_class: Sequence[str], hardware: Hardware
) -> Iterator[Finding]:
    """Yield findings for a selector: unknown names, missing guards, or no matching device.

    Without devices, yields only hints about missing guards. `of_class` are the selectors of the device class.
    """
    if not hardware.devices:
        for access in accesses(expression):
            if not access.guarded:
                yield Finding("hint", place, field, f"{subject}: {_unguarded(access)}")
        return
    missing = missing_name(expression, hardware)
    if missing is not None:
        yield Finding("error", place, field, f"{subject}: {selector_fault(missing)}")
        return
    candidates = matching(hardware.devices, of_class).passed
    verdict = matching(candidates, [expression])
    if verdict.error:
        for access in accesses(expression):
            lacking = sum(1 for one in candidates if not _has(one.view, access))
            if lacking and not access.guarded:
                text = f"{subject}: {_unguarded(access)}, as do {lacking} of {len(candidates)}"
                yield Finding("warning", place, field, text)
    elif candidates and not verdict.passed:
        fault = selector_fault(fault_of(expression, candidates, hardware))
        yield Finding("warning", place, field, f"{subject}: {fault}")


def _unguarded(access: AttributeAccess) -> str:
    """Return the text that a selector fails on devices without the attribute, with a suggested guard."""
    return (
        f"fails on devices that lack {access.label}; write has({access.code()}) && … "
        f'or device.{access.kind}["{access.domain}"].?{access.name}.orValue(…)'
    )


def _has(view: object, access: AttributeAccess) -> bool:
    """Whether a device view has the attribute or capacity."""
    return access.name in getattr(view, access.kind).get(access.domain, {})


# Alternatives


def _unreachable(
    place: str, where: str, request: DeviceRequest, constraints: Sequence[DeviceConstraint]
) -> Iterator[Finding]:
    """Yield a warning for each alternative that is never used because an earlier one is available whenever it is."""
    subs = request.firstAvailable
    for later in range(1, len(subs)):
        for earlier in range(later):
            if _implied(subs[earlier], subs[later]) and _as_free(request, subs[earlier], subs[later], constraints):
                text = (
                    f"alternative {subs[later].name} of request {request.name} is never reached: "
                    f"whatever serves it serves {subs[earlier].name} first"
                )
                yield Finding("warning", place, f"{where}.firstAvailable[{later}]", text)
                break


def _implied(earlier: DeviceSubRequest, later: DeviceSubRequest) -> bool:
    """Whether every device set that satisfies the later alternative also satisfies the earlier one."""
    return (
        earlier.deviceClassName == later.deviceClassName
        and earlier.allocationMode == later.allocationMode == "ExactCount"
        and earlier.count <= later.count
        and earlier.capacity is None
        and set(expressions(earlier.selectors)) <= set(expressions(later.selectors))
        and all(toleration in earlier.tolerations for toleration in later.tolerations)
    )


def _as_free(
    request: DeviceRequest, earlier: DeviceSubRequest, later: DeviceSubRequest, constraints: Sequence[DeviceConstraint]
) -> bool:
    """Whether every constraint on the earlier alternative also applies to the later one."""
    return all(
        f"{request.name}/{earlier.name}" not in constraint.requests
        or f"{request.name}/{later.name}" in constraint.requests
        for constraint in constraints
    )


# Constraints


def _constraint(
    place: str, field: str, constraint: DeviceConstraint, claim: ResourceClaim, hardware: Hardware
) -> Iterator[Finding]:
    """Yield findings for a constraint that contradicts another, names an unknown attribute, or cannot be met.

    Unknown attributes are reported only if any devices are known. `field` is the path of the constraint.
    """
    attribute = constraint.matchAttribute or constraint.distinctAttribute or ""
    kind = "matchAttribute" if constraint.matchAttribute else "distinctAttribute"
    for other in claim.spec.devices.constraints:
        contradicts = constraint.matchAttribute is not None and constraint.matchAttribute == other.distinctAttribute
        if contradicts and set(other.requests) == set(constraint.requests) and _least(claim, constraint) > 1:
            yield Finding(
                "error", place, field, f"nothing satisfies it: devices must share {attribute} and differ in it"
            )
    known = {f"{domain}/{name}" for kind_, domain, name in hardware.values if kind_ == "attributes"}
    if hardware.devices and attribute not in known:
        meant = alike(attribute, known)
        hint = f", did you mean {meant}?" if meant else ""
        text = f"nothing satisfies it: {attribute} exists on 0 of {len(hardware.devices)} devices{hint}"
        yield Finding("error", place, f"{field}.{kind}", text)
    elif hardware.devices and constraint.matchAttribute:
        yield from _crowded(place, field, attribute, _least(claim, constraint), hardware)


def _crowded(place: str, field: str, attribute: str, needed: int, hardware: Hardware) -> Iterator[Finding]:
    """Yield a warning if more devices must share an attribute value than any node has with the same value.

    `attribute` is DOMAIN/NAME, `needed` the least number of devices that the constraint covers.
    """
    domain, _, name = attribute.rpartition("/")
    counts: dict[tuple[str, str], int] = {}
    for one in hardware.devices:
        values = one.view.attributes.get(domain, {})
        if name in values:
            key = (one.node, str(values[name]))
            counts[key] = counts.get(key, 0) + 1
    most = max(counts.values(), default=0)
    if most < needed:
        text = f"nothing satisfies it: {needed} devices must share {attribute}, and at most {most} of one node do"
        yield Finding("warning", place, field, text)


def _least(claim: ResourceClaim, constraint: DeviceConstraint) -> int:
    """Return the minimum number of devices that a constraint covers.

    A request with alternatives counts with its smallest count. Each request counts at least 1.
    """
    total = 0
    for request in claim.spec.devices.requests or ():
        if constraint.requests and request.name not in {name.partition("/")[0] for name in constraint.requests}:
            continue
        counts = [sub.count for sub in request.firstAvailable] or [request.exactly.count if request.exactly else 1]
        total += max(min(counts), 1)
    return total
