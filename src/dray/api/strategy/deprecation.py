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


def deprecation(resource: Resource, version: str) -> str | None:
    """The warning about a version of a resource, if there is one."""
    own = (resource.kind, version)
    since = _DEPRECATED_KINDS[own] if own in _DEPRECATED_KINDS else _DEPRECATED.get((resource.group, version))
    if since is None:
        return None
    return f"{resource.api_version(version)} {resource.kind} is deprecated in {since[0]}+, unavailable in {since[1]}+"
