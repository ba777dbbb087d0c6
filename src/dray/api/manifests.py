"""Converts manifests: from a tree in any served version to a typed object with defaults.

Performs the steps of the API server that need no other objects: structural validation, conversion to the stored
version and defaulting. Reading files and further validation are not part of this module.
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
    """The document cannot be used; the message gives the reason."""


def object_of(tree: Tree, gates: FeatureGates) -> Wire:
    """Convert a document to a typed object. Raises ManifestError; modifies the tree."""
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
