"""Mutation by policies and webhooks: in which order they act, which object they see, how results are checked.

A policy or webhook with `reinvocationPolicy: IfNeeded` acts again if the object changes after its turn. A changed
object is checked and defaulted like the body of a client. Connection options, a Scale and posts to a subresource have
their own kinds: they are checked, but not defaulted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import msgspec

from dray.api import conversion, decode, defaults
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.wire import Tree, Wire, tree_of
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.judges import JudgingContext
from dray.apiserver.admission.matching import own_kind, presented
from dray.apiserver.wire.bodies import ORDINARY
from dray.apiserver.write.patches.effort import Effort, TakesLong


def changeable(request: AdmissionRequest) -> Tree | None:
    """Return the tree that webhooks and policies may change, or None if the request has none.

    Created here for subresources, most of which need none.
    """
    if request.tree is None and request.object is not None and own_kind(request) is not None:
        request.tree = tree_of(request.object)
    return request.tree


def message(request: AdmissionRequest, version: str) -> str:
    """Return the schema name of the request's object in a version of its resource."""
    if own_kind(request) is None:
        return request.resource.message(version)
    kind = type(request.object)
    return f"io.k8s.api.{kind.__module__.rpartition('.')[2]}.v1.{kind.__name__}"


def seen(request: AdmissionRequest, tree: Tree) -> AdmissionRequest:
    """Return the request with its object decoded from `tree`."""
    if own_kind(request) is not None:
        return msgspec.structs.replace(request, object=_of_own_kind(request, tree))
    typed = decode.to_object(request.resource.home, tree_of(tree))
    return msgspec.structs.replace(request, object=typed)


def present(request: AdmissionRequest) -> AdmissionRequest:
    """Return the request with its object decoded from its own tree.

    A DELETE, which has no tree, is returned unchanged.
    """
    return seen(request, request.tree) if request.tree is not None else request


class MutatingJudge(Protocol):
    """A policy or webhook that may change objects."""

    @property
    def is_asked_again(self) -> bool: ...

    async def act(self, request: AdmissionRequest) -> bool | None:
        """Change the tree of a request. Returns whether it changed, or None if the judge does not match the request."""


async def act_all(
    judges: Iterable[MutatingJudge],
    request: AdmissionRequest,
    reinvoke_others: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Let judges act in order, then those again that want reinvocation and were followed by a change.

    `reinvoke_others` is called after a change and returns whether it changed the object again.
    """
    acted: list[MutatingJudge] = []  # judges to reinvoke if a later one changes the object
    again: list[MutatingJudge] = []
    has_changed = False
    for judge in judges:
        changed = await judge.act(request)
        if changed:
            again, has_changed = [*acted], True
        if changed is not None and judge.is_asked_again:
            acted.append(judge)
    if has_changed and reinvoke_others is not None and await reinvoke_others():
        again = acted
    for judge in again:
        await judge.act(request)


async def change(
    context: JudgingContext,
    request: AdmissionRequest,
    version: str,
    make: Callable[[AdmissionRequest, Tree, Effort], Tree],
) -> bool:
    """Replace the request's tree by the result of `make`. Returns whether it changed.

    `make` gets the request, the object in a version, and a budget. It returns the object in the stored version. It
    runs in the worker thread if the object is or becomes large.
    """
    about, tree, run = present(request), request.tree, context.resolver.run
    state = about.object
    assert tree is not None
    assert state is not None

    def made(effort: Effort) -> Tree:
        return make(about, presented(about, version, state), effort)

    if not request.is_large:
        try:
            return put(tree, await run(request.user.name, False, lambda: made(Effort.quick())))
        except TakesLong:
            request.is_large = True
    return put(tree, await run(request.user.name, True, lambda: made(Effort())))


def finished(
    request: AdmissionRequest, version: str, changed: Tree, gates: FeatureGates, *, strict: bool = False
) -> Tree:
    """Return a changed object in the stored version, with defaults. Raises BadRequest if it is not a valid object.

    With `strict`, unknown fields are an error.
    """
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
    seen(request, stored)  # raises if it is not an object of this kind
    return stored


def _of_own_kind(request: AdmissionRequest, tree: Tree) -> Wire:
    """Return the tree decoded to the type of the request's object. Raises BadRequest if it does not fit."""
    assert request.object is not None  # as sent by the client
    try:
        return msgspec.convert(tree, type(request.object))
    except msgspec.ValidationError as error:
        raise BadRequest(f"no valid {type(request.object).__name__}: {error}") from error


def put(tree: Tree, changed: Tree) -> bool:
    """Replace the content of a tree in place. Returns whether it changed."""
    if changed == tree:
        return False
    if "metadata" not in tree:  # connection options
        tree.clear()
        tree.update(changed)
        return True
    metadata = tree["metadata"]  # keeps its identity, because others reference it
    metadata.clear()
    metadata.update(changed.pop("metadata", {}))
    tree.clear()
    tree.update({"metadata": metadata, **changed})
    return True
