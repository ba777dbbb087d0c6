"""Warnings about deprecated versions, which the server adds to every response."""

from __future__ import annotations

from dray.api.resources import Resource


def deprecation(resource: Resource, version: str) -> str | None:
    """Return the deprecation warning of a resource's version, or None if the version is not deprecated."""
    if resource.custom is not None:
        return _custom(resource, version)
    since = resource.deprecated.get(version)
    return f"{resource.api_version(version)} {resource.kind} is deprecated in {since}" if since else None


def _custom(resource: Resource, version: str) -> str | None:
    """Return the deprecation warning of a custom resource's version, or None if the version is not deprecated."""
    assert resource.custom is not None
    spec = resource.custom.versions[version].spec
    if not spec.deprecated:
        return None
    return spec.deprecationWarning or f"{resource.api_version(version)} {resource.kind} is deprecated"
