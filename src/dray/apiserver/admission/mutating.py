"""What happens to a tree that webhooks and policies change: they see it as an object, and it is checked and defaulted after.

The options of a connection, a Scale, and what is posted to a subresource are of a kind of their own. They are checked, but
have no defaults.

Left out: who changes it, and how.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api import conversion, decode, defaults
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.wire import Tree, Wire, tree_of
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.matching import own_kind
from dray.apiserver.steps import RequestResolver
from dray.apiserver.wire.bodies import ORDINARY
from dray.apiserver.write.patches.effort import Effort, TakesLong


def changeable(request: AdmissionRequest) -> Tree | None:
    """The tree that webhooks and policies change. What is posted to a subresource gets it here, since most need none."""
    if request.tree is None and request.object is not None and own_kind(request) is not None:
        request.tree = tree_of(request.object)
    return request.tree


def message(request: AdmissionRequest, version: str) -> str:
    """The name of the schema of what is written, in a version of its resource."""
    if own_kind(request) is None:
        return request.resource.message(version)
    kind = type(request.object)
    return f"io.k8s.api.{kind.__module__.rpartition('.')[2]}.v1.{kind.__name__}"


def seen(request: AdmissionRequest, tree: Tree) -> AdmissionRequest:
    """The request with the object that its tree stands for now."""
    if own_kind(request) is not None:
        return msgspec.structs.replace(request, object=_of_own_kind(request, tree))
    typed = decode.to_object(request.resource.home, tree_of(tree))
    return msgspec.structs.replace(request, object=typed)


async def patched(resolver: RequestResolver, request: AdmissionRequest, patch: Callable[[Effort], Tree]) -> Tree:
    """What a webhook or a policy makes of an object: in the worker thread if it is large, or becomes so."""
    if not request.is_large:
        try:
            return await resolver.run(request.user.name, False, lambda: patch(Effort.quick()))
        except TakesLong:
            request.is_large = True
    return await resolver.run(request.user.name, True, lambda: patch(Effort()))


def finished(
    request: AdmissionRequest, version: str, changed: Tree, gates: FeatureGates, *, strict: bool = False
) -> Tree:
    """Returns a changed object in the stored version. Raises BadRequest if it cannot be decoded as an object."""
    if own_kind(request) is not None:
        return tree_of(_of_own_kind(request, {k: v for k, v in changed.items() if k not in ("apiVersion", "kind")}))
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


def _of_own_kind(request: AdmissionRequest, tree: Tree) -> Wire:
    """What the tree stands for. Raises BadRequest if it has other fields or values of other types."""
    assert request.object is not None  # as the client sent it
    try:
        return msgspec.convert(tree, type(request.object))
    except msgspec.ValidationError as error:
        raise BadRequest(f"no valid {type(request.object).__name__}: {error}") from error


def put(tree: Tree, changed: Tree) -> bool:
    """Give a tree the content of another; whether that makes a difference."""
    if changed == tree:
        return False
    if "metadata" not in tree:  # the options of a connection
        tree.clear()
        tree.update(changed)
        return True
    metadata = tree["metadata"]  # which others hold on to
    metadata.clear()
    metadata.update(changed.pop("metadata", {}))
    tree.clear()
    tree.update({"metadata": metadata, **changed})
    return True
