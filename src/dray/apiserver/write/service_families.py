"""Address families of a Service: those requested if the cluster has them, otherwise a default."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dray.api.errors import FieldError, Invalid, invalid
from dray.api.kinds.service import check_addresses
from dray.api.paths import SPEC
from dray.api.resources import BY_TYPE
from dray.api.service_fields import (
    IPV4,
    IPV6,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    family_of,
    is_headless,
)
from dray.api.types.core import Service, ServiceSpec

SERVICES = BY_TYPE[Service]
_POLICY = SPEC / "ipFamilyPolicy"


def with_families(service: Service, old: Service | None, configured: tuple[str, ...]) -> Service:
    """Return a Service with its IP families and policy set; unchanged if it is an ExternalName or already settled.

    `configured` are the cluster's families, the default first. Raises Invalid if addresses, families and policy do
    not fit together or the cluster lacks a family.
    """
    spec, before = service.spec, old.spec if old is not None else None
    if spec.type == "ExternalName" or _is_settled(spec, before):
        return service
    spec = replace(spec, ipFamilyPolicy=spec.ipFamilyPolicy or _policy(spec, before))
    _refuse(service, check_addresses(spec))
    if before is not None and spec.ipFamilyPolicy == SINGLE_STACK:
        spec = _first_only(spec, before)
    _refuse(service, _conflicts(spec, before))
    spec = _inferred(service, spec, configured)
    default = configured[0] if configured else IPV4
    families = spec.ipFamilies or (default,)
    if is_headless(spec) and not spec.selector:  # endpoints are managed externally and may have any family
        return replace(service, spec=replace(spec, ipFamilies=_all(families, spec, (IPV4, IPV6))))
    _refuse(service, _unavailable(spec, configured))
    return replace(service, spec=replace(spec, ipFamilies=_all(families, spec, configured)))


def _is_settled(spec: ServiceSpec, before: ServiceSpec | None) -> bool:
    """Return whether a PreferDualStack Service keeps its addresses and families.

    The cluster's families may have changed since.
    """
    return (
        before is not None
        and spec.ipFamilyPolicy == before.ipFamilyPolicy == PREFER_DUAL_STACK
        and bool(spec.clusterIPs)
        and (spec.clusterIPs, spec.ipFamilies) == (before.clusterIPs, before.ipFamilies)
    )


def _policy(spec: ServiceSpec, before: ServiceSpec | None) -> str:
    """Return the previous ipFamilyPolicy, or the default.

    The default is RequireDualStack for headless Services without a selector, else SingleStack.
    """
    if before is not None and before.ipFamilyPolicy:
        return before.ipFamilyPolicy
    return REQUIRE_DUAL_STACK if is_headless(spec) and not spec.selector else SINGLE_STACK


def _first_only(spec: ServiceSpec, before: ServiceSpec) -> ServiceSpec:
    """Return the spec with only the first address and family, as far as the update did not change them.

    Called for an update to SingleStack.
    """
    if spec.clusterIPs == before.clusterIPs:
        spec = replace(spec, clusterIPs=spec.clusterIPs[:1])
    return replace(spec, ipFamilies=spec.ipFamilies[:1]) if spec.ipFamilies == before.ipFamilies else spec


def _conflicts(spec: ServiceSpec, before: ServiceSpec | None) -> Iterable[FieldError]:
    """Yield errors for addresses and families that do not fit the policy."""
    named = (("cluster IP", "clusterIPs"), ("IP famil", "ipFamilies"))
    for words, field in named:
        values = getattr(spec, field)
        one, many = (f"{words}y", f"{words}ies") if field == "ipFamilies" else (words, f"{words}s")
        if spec.ipFamilyPolicy == SINGLE_STACK and len(values) > 1:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
            yield invalid(_POLICY, spec.ipFamilyPolicy, text)
        had = getattr(before, field) if before is not None and before.type != "ExternalName" else ()
        if spec.ipFamilyPolicy != SINGLE_STACK and len(had) > 1 and len(values) == 1:
            yield invalid(_POLICY, spec.ipFamilyPolicy, f"must be 'SingleStack' to release the secondary {one}")


def _inferred(service: Service, spec: ServiceSpec, configured: tuple[str, ...]) -> ServiceSpec:
    """Return the spec with missing families inferred from its addresses.

    Raises Invalid for a family the cluster lacks.
    """
    if is_headless(spec):
        return spec
    more = [family_of(address) for address in spec.clusterIPs[len(spec.ipFamilies) :]]
    for index, family in enumerate(more, start=len(spec.ipFamilies)):
        if family not in configured:
            text = f"{family} is not configured on this cluster"
            _refuse(service, [invalid(SPEC / "clusterIPs" / index, list(spec.clusterIPs), text)])
    return replace(spec, ipFamilies=(*spec.ipFamilies, *more))


def _unavailable(spec: ServiceSpec, configured: tuple[str, ...]) -> Iterable[FieldError]:
    """Yield errors for families that the cluster does not have."""
    if spec.ipFamilyPolicy == REQUIRE_DUAL_STACK and len(configured) == 1:
        yield invalid(_POLICY, spec.ipFamilyPolicy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(spec.ipFamilies):
        if family not in configured:
            yield invalid(SPEC / "ipFamilies" / index, family, "not configured on this cluster")


def _all(families: tuple[str, ...], spec: ServiceSpec, configured: tuple[str, ...]) -> tuple[str, ...]:
    """Return the families, completed with the configured ones unless the policy is SingleStack.

    The given ones come first.
    """
    if spec.ipFamilyPolicy == SINGLE_STACK:
        return families
    return (*families, *(family for family in configured if family not in families))


def _refuse(service: Service, errors: Iterable[FieldError]) -> None:
    """Raise Invalid for the Service if there are any errors."""
    if found := list(errors):
        raise Invalid(SERVICES, service.metadata.name, found)
