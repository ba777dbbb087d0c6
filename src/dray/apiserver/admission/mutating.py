"""What happens to a tree that webhooks and policies change: they see it as an object, and it is checked and defaulted after.

Left out: who changes it, and how.
"""

from __future__ import annotations

import msgspec

from dray.api import conversion, decode, defaults
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.wire import Tree, tree_of
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.wire.bodies import ORDINARY


def seen(request: AdmissionRequest, tree: Tree) -> AdmissionRequest:
    """The request with the object that its tree stands for now."""
    typed = decode.to_object(conversion.home(request.resource), tree_of(tree))
    return msgspec.structs.replace(request, object=typed)


def finished(
    request: AdmissionRequest, version: str, changed: Tree, gates: FeatureGates, *, strict: bool = False
) -> Tree:
    """Returns a changed object in the stored version. Raises BadRequest if it cannot be decoded as an object."""
    for field in ("apiVersion", "kind", "metadata"):
        if not changed.get(field):
            raise BadRequest(f"the patched object has no {field}")
    ORDINARY.walk(changed, ORDINARY.limits.values)
    complaints = decode.check(request.resource, version, changed)
    if complaints and strict:
        raise decode.strict_error(request.resource, version, complaints)
    stored = conversion.to_stored(request.resource, version, changed, request.old)
    defaults.apply_defaults(request.resource, stored, gates)
    seen(request, stored)  # or it is no object of this kind
    return stored


def put(tree: Tree, changed: Tree) -> bool:
    """Give a tree the content of another; whether that makes a difference."""
    if changed == tree:
        return False
    metadata = tree["metadata"]  # which others hold on to
    metadata.clear()
    metadata.update(changed.pop("metadata"))
    tree.clear()
    tree.update({"metadata": metadata, **changed})
    return True
