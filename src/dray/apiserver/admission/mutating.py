"""Mutation: in which order policies and webhooks change a tree, how they see it, and how the result is checked.

One that asks for it (`reinvocationPolicy: IfNeeded`) acts once more if another changed the object after it. A changed object
is checked and defaulted like what a client writes. The options of a connection, a Scale, and what is posted to a subresource
are of a kind of their own: they are checked, but have no defaults. Left out: what they change.
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


def present(request: AdmissionRequest) -> AdmissionRequest:
    """The request with the object that its own tree stands for now; a deletion has no tree."""
    return seen(request, request.tree) if request.tree is not None else request


class MutatingJudge(Protocol):
    """A policy or a webhook that may change objects."""

    @property
    def is_asked_again(self) -> bool: ...

    async def act(self, request: AdmissionRequest) -> bool | None:
        """Change the tree of a request; whether there is a difference. None: the request does not concern it."""


async def act_all(
    judges: Iterable[MutatingJudge],
    request: AdmissionRequest,
    reinvoke_others: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Let judges act in their order, and some of them again. `reinvoke_others` is called after a change."""
    acted: list[MutatingJudge] = []  # those that want to act again if something is changed after them
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
    """Put what is made of the object of a request into its tree; whether there is a difference.

    `make` gets the request and the object in a version, and returns the object as it is stored; it runs in the worker thread
    if the object is large, or becomes so.
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
