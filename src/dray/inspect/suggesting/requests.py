"""Suggestions about the requests of a claim: selectors, counts, tolerations and constraints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dray.api.reasons.cause_wording import asked as in_words_of
from dray.api.reasons.cause_wording import claim_named, place
from dray.api.reasons.causes.amounts import AmountCause, LessCapacity
from dray.api.reasons.causes.base import RequestCause
from dray.api.reasons.causes.conflicts import LeaveClaim, NoCombination, RequestsConflict
from dray.api.reasons.causes.constraints import (
    ConstraintAttribute,
    ConstraintOfAll,
    ConstraintUnmet,
    NoConstraint,
    RenameInConstraint,
)
from dray.api.reasons.causes.selectors import (
    ChangeClassSelector,
    ClassMatchesNothing,
    GuardSelector,
    OtherValue,
    RenameInSelector,
    SelectorCause,
    SelectorFails,
)
from dray.api.reasons.causes.tainted import TolerateDevice
from dray.api.reasons.causes.taken import AddAlternative, NotAll, NotAllFree
from dray.api.reasons.causes.too_few import FewerDevices, TooManyDevices
from dray.api.reasons.requested import RequestedDevices
from dray.api.reasons.selector_faults import SelectorCode
from dray.api.reasons.suggestions import SuggestedChange, Suggestion
from dray.api.taints import taint_text
from dray.api.types.core import Taint
from dray.api.types.resource import DeviceTaint
from dray.api.usage import MOST_DEVICES
from dray.api.wire import Tree, tree_of
from dray.inspect.asking import DeviceCensus, expressions
from dray.inspect.changes import patched
from dray.inspect.expressions import accesses, in_words
from dray.inspect.hardware import matching
from dray.inspect.selectors import missing_name
from dray.inspect.suggesting.rewriting import guarded, redriven, renamed, revalued
from dray.inspect.suggesting.subject import WaitingPod

# Selectors


def selector(subject: WaitingPod, cause: SelectorCause) -> Iterator[Suggestion]:
    """Yield suggestions to use another name, driver or value in a selector that matches nothing.

    Yields nothing if the request is unknown.
    """
    ask = subject.ask(cause.asked)
    if ask is None:
        return
    number = cause.selector
    old = ask.selectors[number]
    where = in_words_of(cause.asked)
    fault = cause.fault
    if fault.code is SelectorCode.NAME_MISSING:
        if fault.place is not None and fault.meant is not None:
            text = renamed(old, fault.place, fault.meant)
            told = place(fault.meant, fault.place)
            changes = _with_selector(subject, cause.asked, old, text)
            yield RenameInSelector(where, fault.place.name, told, changes=changes)
        return
    for text in redriven(old, _drivers(subject)):
        changes = _with_selector(subject, cause.asked, old, text)
        yield OtherValue(where, in_words(old), in_words(text), changes=changes)
    census = DeviceCensus(ask, subject.hardware, subject.snapshot.taken)
    for text, before, after in revalued(old, census.after(number)):
        changes = _with_selector(subject, cause.asked, old, text)
        yield OtherValue(where, in_words(before), in_words(after), changes=changes)


def _with_selector(subject: WaitingPod, asked: RequestedDevices, old: str, new: str) -> tuple[SuggestedChange, ...]:
    """Return the changes that replace a selector of a request; empty if both are equal.

    Also empty if the claim cannot be created again.
    """
    if old == new:
        return ()
    return subject.request_again(asked, lambda request: _put_selector(request, old, new))


def _put_selector(tree: Tree, old: str, new: str) -> None:
    """Replace a selector expression in place."""
    for one in tree.get("selectors", ()):
        if one["cel"]["expression"] == old:
            one["cel"]["expression"] = new


def selector_fails(subject: WaitingPod, cause: SelectorFails) -> Iterator[Suggestion]:
    """Yield suggestions to correct a name in a failing selector of claim or class, or to guard the attribute."""
    asks = [ask for claim in subject.pending() for ask in subject.asks(claim)]
    for ask in asks:
        for old in ask.selectors:
            for kind, told, text in _mended(subject, old):
                changes = _with_selector(subject, ask.asked(0), old, text)
                yield kind(in_words_of(ask.asked(0)), *told, changes=changes)
        yield from _class_mended(subject, ask.class_name)


Mended = tuple[type[RenameInSelector | GuardSelector], tuple[str, str], str]


def _mended(subject: WaitingPod, old: str) -> Iterator[Mended]:
    """Yield corrected versions of a selector, each as suggestion type, texts and expression.

    The texts are arguments of the suggestion type. Yields nothing if there is nothing to correct.
    """
    fault = missing_name(old, subject.hardware)
    if fault is not None and fault.place is not None and fault.meant is not None:
        told = fault.place.name, place(fault.meant, fault.place)
        yield RenameInSelector, told, renamed(old, fault.place, fault.meant)
    for access in accesses(old):
        if not access.guarded:
            text = guarded(old, access.place)
            yield GuardSelector, (in_words(old), text), text


def _class_mended(subject: WaitingPod, name: str) -> Iterator[Suggestion]:
    """Yield suggestions with corrected selectors of a device class."""
    class_ = subject.snapshot.classes.get(name)
    for old in expressions(class_.spec.selectors) if class_ is not None else ():
        for _, _, text in _mended(subject, old):
            yield _class_selector(subject, name, old, text)


def class_matches_nothing(subject: WaitingPod, cause: ClassMatchesNothing) -> Iterator[Suggestion]:
    """Yield suggestions to use another driver, attribute or value in the selectors of a class."""
    class_ = subject.snapshot.classes.get(cause.asked.device_class)
    drivers = _drivers(subject)
    for old in expressions(class_.spec.selectors) if class_ is not None else ():
        texts = [*redriven(old, drivers), *(text for _, _, text in _mended(subject, old))]
        texts += [text for text, _, _ in revalued(old, subject.hardware.usable)]
        for text in texts:
            yield _class_selector(subject, cause.asked.device_class, old, text)


def _drivers(subject: WaitingPod) -> list[str]:
    return sorted({one.id.driver for one in subject.hardware.usable})


def _class_selector(subject: WaitingPod, name: str, old: str, new: str) -> ChangeClassSelector:
    """Return the suggestion to replace a selector of a class."""
    class_ = subject.snapshot.classes[name]
    spec = tree_of(class_)["spec"]
    _put_selector(spec, old, new)
    change = patched(class_, {"spec": {"selectors": spec["selectors"]}})
    return ChangeClassSelector(name, old, new, changes=(change,) if old != new else ())


# Counts


def fewer(subject: WaitingPod, cause: RequestCause) -> Iterator[Suggestion]:
    """Yield the suggestion to request as many devices as one node can provide.

    Yields nothing if the request is unknown or the number would be 0.
    """
    asked = cause.asked
    if subject.ask(asked) is None:
        return
    best = max((v.devices.most_for(asked.claim, asked.request) for v in subject.nodes if v.devices), default=0)
    yield from _asking_for(subject, asked, min(best, asked.needed - 1))


def _asking_for(subject: WaitingPod, asked: RequestedDevices, number: int) -> Iterator[Suggestion]:
    """Yield the suggestion to request this many devices, if positive."""
    if number > 0:
        changes = _exactly(subject, asked, number)
        yield FewerDevices(in_words_of(asked), asked.needed, number, changes=changes)


def _exactly(subject: WaitingPod, asked: RequestedDevices, number: int) -> tuple[SuggestedChange, ...]:
    """Return the changes that set the count of a request.

    Empty if the claim cannot be created again.
    """

    def change(request: Tree) -> None:
        request["allocationMode"], request["count"] = "ExactCount", number

    return subject.request_again(asked, change)


def not_all(subject: WaitingPod, cause: NotAllFree) -> Iterator[Suggestion]:
    """Yield the suggestion to request only the free devices instead of all devices of a node.

    Yields nothing if none are free.
    """
    if cause.free:
        changes = _exactly(subject, cause.asked, cause.free)
        yield NotAll(in_words_of(cause.asked), cause.free, changes=changes)


def too_many(subject: WaitingPod, cause: TooManyDevices) -> Iterator[Suggestion]:
    """Yield the suggestion to reduce the largest request so that the claim stays within the device limit.

    Only requests for an exact count are considered. Yields nothing if there are none.
    """
    claim = subject.claim(cause.claim)
    asks = subject.asks(claim) if claim is not None else []
    exact = [ask for ask in asks if ask.spec.allocationMode == "ExactCount"]
    largest = max(exact, key=lambda ask: ask.spec.count, default=None)
    if largest is not None:
        over = sum(ask.spec.count for ask in exact) - MOST_DEVICES
        yield from _asking_for(subject, largest.asked(largest.spec.count), largest.spec.count - over)


def less_capacity(subject: WaitingPod, cause: AmountCause) -> Iterator[Suggestion]:
    """Yield the suggestion to request only as much capacity as the closest device has left.

    Yields nothing if counters lack too.
    """
    asked = cause.asked
    amounts = [amount for amount in cause.lacking if not amount.counter_set]
    if not amounts or len(amounts) != len(cause.lacking):
        return

    def change(request: Tree) -> None:
        for amount in amounts:
            request.setdefault("capacity", {}).setdefault("requests", {})[amount.name] = amount.left

    changes = subject.request_again(asked, change)
    names, left = tuple(one.name for one in amounts), tuple(one.left for one in amounts)
    yield LessCapacity(in_words_of(asked), names, left, changes=changes)


def alternative(subject: WaitingPod, cause: RequestCause) -> Iterator[Suggestion]:
    """Yield suggestions to add another class of the same driver as an alternative.

    Only classes with enough other devices are suggested, and only for requests of an exact count without admin
    access.
    """
    ask, asked = subject.ask(cause.asked), cause.asked
    if ask is None or ask.spec.allocationMode != "ExactCount" or getattr(ask.spec, "adminAccess", None):
        return
    selected = {one.id for one in DeviceCensus(ask, subject.hardware, subject.snapshot.taken).of_class}
    drivers = {one.driver for one in selected}
    for name, class_ in sorted(subject.snapshot.classes.items()):
        devices = matching(subject.hardware.usable, expressions(class_.spec.selectors), subject.hardware.meter).passed
        others = {one.id for one in devices if one.id.driver in drivers} - selected
        if name == ask.class_name or len(others) < asked.needed:
            continue
        changes = subject.claim_again(asked.claim, partial(_with_alternative, request=asked.request, device_class=name))
        yield AddAlternative(in_words_of(asked), name, asked.needed, changes=changes)


def _with_alternative(spec: Tree, request: str, device_class: str) -> None:
    """Add an alternative of another class to a request, in place.

    A request without alternatives becomes the first alternative, named `preferred`.
    """
    main, _, own = request.partition("/")
    for one in spec["devices"]["requests"]:
        if one["name"] != main:
            continue
        if "exactly" in one:
            one["firstAvailable"] = [{"name": "preferred", **one.pop("exactly")}]
        choices = one["firstAvailable"]
        like = next((choice for choice in choices if choice["name"] == own), choices[0])
        taken = {choice["name"] for choice in choices}
        name = next(name for name in ("alternative", *(f"alternative-{n}" for n in range(2, 10))) if name not in taken)
        counted = {key: like[key] for key in ("allocationMode", "count") if key in like}
        choices.append({"name": name, "deviceClassName": device_class, **counted})


# Tolerations


def tolerate(subject: WaitingPod, cause: RequestCause) -> Iterator[Suggestion]:
    """Yield suggestions to tolerate the taints that exclude devices: each taint alone, then all together.

    Yields nothing if the request is unknown or no device is tainted.
    """
    ask, asked = subject.ask(cause.asked), cause.asked
    taints = DeviceCensus(ask, subject.hardware, subject.snapshot.taken).taints() if ask is not None else []
    if not taints:
        return
    for some in ([[taint] for taint in taints] if len(taints) > 1 else []) + [taints]:
        yield _tolerating(subject, asked, some)


def _tolerating(subject: WaitingPod, asked: RequestedDevices, taints: list[DeviceTaint]) -> TolerateDevice:
    def change(request: Tree) -> None:
        request["tolerations"] = [*request.get("tolerations", ()), *map(toleration, taints)]

    changes = subject.request_again(asked, change)
    names = tuple(map(taint_text, taints))
    return TolerateDevice(in_words_of(asked), names, changes=changes)


def toleration(taint: DeviceTaint | Taint) -> Tree:
    """Return the toleration for exactly this taint."""
    tree: Tree = {"key": taint.key, "effect": taint.effect}
    return tree | ({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"})


# Constraints


def constraint(
    subject: WaitingPod, cause: ConstraintUnmet | ConstraintAttribute | ConstraintOfAll
) -> Iterator[Suggestion]:
    """Yield suggestions to correct the attribute of a constraint, or to remove the constraint.

    A cause about all constraints yields the removal of each of them.
    """
    attribute = "" if isinstance(cause, ConstraintOfAll) else cause.attribute
    similar = cause.similar if isinstance(cause, ConstraintAttribute) else ""
    where = claim_named(cause.claim, "" if isinstance(cause, ConstraintOfAll) else cause.template)
    if similar:

        def rename(spec: Tree) -> None:
            for one in spec["devices"].get("constraints", ()):
                for kind in ("matchAttribute", "distinctAttribute"):
                    if one.get(kind) == attribute:
                        one[kind] = similar

        changes = subject.claim_again(cause.claim, rename)
        yield RenameInConstraint(where, attribute, similar, changes=changes)
    claim = subject.claim(cause.claim)
    for one in claim.spec.devices.constraints if claim is not None else ():
        name = one.matchAttribute or one.distinctAttribute or ""
        if name == attribute or not attribute:
            changes = subject.claim_again(cause.claim, partial(_without, attribute=name))
            yield NoConstraint(where, name, changes=changes)


def _without(spec: Tree, attribute: str) -> None:
    """Remove the constraints on an attribute from a claim spec, in place."""
    kept = [
        one
        for one in spec["devices"].get("constraints", ())
        if attribute not in (one.get("matchAttribute"), one.get("distinctAttribute"))
    ]
    spec["devices"]["constraints"] = kept


def other_pod(subject: WaitingPod, cause: RequestsConflict | NoCombination) -> Iterator[Suggestion]:
    """Yield the suggestion to move one of several competing claims to another pod.

    Yields nothing if the cause names no claim that could be moved.
    """
    if not cause.spare_claim:
        return

    def leave_out(spec: Tree) -> None:
        left = [
            entry for entry in spec.get("resourceClaims", ()) if entry.get("resourceClaimName") == cause.spare_claim
        ]
        names = {entry["name"] for entry in left}
        spec["resourceClaims"] = [entry for entry in spec.get("resourceClaims", ()) if entry["name"] not in names]
        for container in spec["containers"]:
            used = container.get("resources", {}).get("claims", ())
            if used:
                container["resources"]["claims"] = [one for one in used if one["name"] not in names]

    yield LeaveClaim(subject.label, cause.spare_claim, changes=subject.again(leave_out))
