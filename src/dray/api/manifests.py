"""Objects as people write them: from a tree of any served version to a typed object with its defaults.

What the API server does to a new object that does not need other objects: check the shape, convert to the stored
version, apply defaults. Left out: reading files, and validation beyond the shape.
"""

from __future__ import annotations

from dray.api.conversion import to_stored
from dray.api.decode import check, to_object
from dray.api.defaults import apply_defaults
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND
from dray.api.wire import Tree, Wire


class ManifestError(ValueError):
    """A document that cannot be used; says which, where and why."""


def object_of(tree: Tree, gates: FeatureGates) -> Wire:
    """The typed object of a document. The tree is used up."""
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ManifestError("apiVersion and kind must be given")
    group, _, version = api_version.rpartition("/")
    resource = BY_KIND.get((group, kind))
    if resource is None or version not in resource.versions:
        raise ManifestError(f"no kind {kind} in {api_version} is known")
    try:
        complaints = check(resource, version, tree)
        if complaints:
            raise ManifestError("; ".join(complaints))
        stored = to_stored(resource, version, tree)
        apply_defaults(resource, stored, gates)
        return to_object(resource.home, stored)
    except BadRequest as error:
        raise ManifestError(str(error)) from error
