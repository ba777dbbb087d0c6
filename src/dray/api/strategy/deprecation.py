"""Which served versions are on their way out: clients are warned with every answer."""

from __future__ import annotations

from dray.api.resources import Resource


def deprecation(resource: Resource, version: str) -> str | None:
    """The warning about a version of a resource, if there is one."""
    if resource.custom is not None:
        return _custom(resource, version)
    since = resource.deprecated.get(version)
    return f"{resource.api_version(version)} {resource.kind} is deprecated in {since}" if since else None


def _custom(resource: Resource, version: str) -> str | None:
    """What the definition of a custom resource says about a version."""
    assert resource.custom is not None
    spec = resource.custom.versions[version].spec
    if not spec.deprecated:
        return None
    return spec.deprecationWarning or f"{resource.api_version(version)} {resource.kind} is deprecated"
