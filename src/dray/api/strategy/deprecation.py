"""Which served versions are on their way out: clients are warned with every answer."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.resources import Resource

# Group and version, and the releases since when it is deprecated and in which it is gone.
_DEPRECATED: Mapping[tuple[str, str], tuple[str, str]] = {
    ("resource.k8s.io", "v1beta1"): ("v1.35", "v1.38"),
    ("resource.k8s.io", "v1beta2"): ("v1.36", "v1.39"),
}
# Kinds that came to such a version later, or have versions of their own.
_DEPRECATED_KINDS: Mapping[tuple[str, str], tuple[str, str] | None] = {
    ("DeviceTaintRule", "v1beta2"): None,
    ("DeviceTaintRule", "v1alpha3"): ("v1.36", "v1.39"),
}


# Kinds that have a successor.
_REPLACED: Mapping[tuple[str, str], str] = {("Endpoints", "v1"): "v1.33+; use discovery.k8s.io/v1 EndpointSlice"}


def deprecation(resource: Resource, version: str) -> str | None:
    """The warning about a version of a resource, if there is one."""
    if resource.custom is not None:
        return _custom(resource, version)
    own = (resource.kind, version)
    if replaced := _REPLACED.get(own):
        return f"{resource.api_version(version)} {resource.kind} is deprecated in {replaced}"
    since = _DEPRECATED_KINDS[own] if own in _DEPRECATED_KINDS else _DEPRECATED.get((resource.group, version))
    if since is None:
        return None
    return f"{resource.api_version(version)} {resource.kind} is deprecated in {since[0]}+, unavailable in {since[1]}+"


def _custom(resource: Resource, version: str) -> str | None:
    """What the definition of a custom resource says about a version."""
    assert resource.custom is not None
    spec = resource.custom.versions[version].spec
    if not spec.deprecated:
        return None
    return spec.deprecationWarning or f"{resource.api_version(version)} {resource.kind} is deprecated"
