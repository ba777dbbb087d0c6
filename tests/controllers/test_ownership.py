"""Decisions of the garbage collector, as a table."""

from __future__ import annotations

import pytest

from dray.api.types.core import ConfigMap
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    AwaitDependents,
    Delete,
    Keep,
    OwnershipDecision,
    OwnerStanding,
    Release,
    RemoveFinalizer,
    SetOwners,
    Unblock,
    decide_deleting,
    decide_owned,
    owners_tree,
)

SOLID, WAITING, GONE = OwnerStanding.SOLID, OwnerStanding.WAITING, OwnerStanding.GONE


def ref(uid: str, block: bool | None = None) -> OwnerReference:
    return OwnerReference(apiVersion="v1", kind="ConfigMap", name=uid, uid=uid, blockOwnerDeletion=block)


def dependent(block: bool | None = True, *finalizers: str, deleting: bool = False) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(
            name="d",
            uid="d",
            ownerReferences=(ref("me", block),),
            finalizers=finalizers,
            deletionTimestamp="2026-01-01T00:00:00Z" if deleting else None,
        )
    )


def marked(*finalizers: str) -> ObjectMeta:
    return ObjectMeta(uid="me", finalizers=finalizers, deletionTimestamp="2026-01-01T00:00:00Z")


BLOCKING, LOOSE = dependent(), dependent(None)


@pytest.mark.parametrize(
    ("finalizers", "dependents", "expected"),
    [
        ((), [BLOCKING], Keep()),
        (("other",), [BLOCKING], Keep()),
        ((FOREGROUND,), [], RemoveFinalizer(FOREGROUND)),
        ((FOREGROUND,), [LOOSE], RemoveFinalizer(FOREGROUND)),
        ((FOREGROUND,), [LOOSE, BLOCKING], AwaitDependents((LOOSE, BLOCKING))),
        ((ORPHAN,), [], RemoveFinalizer(ORPHAN)),
        ((ORPHAN,), [LOOSE], Release((LOOSE,))),
    ],
)
def test_an_owner_that_is_deleted(
    finalizers: tuple[str, ...], dependents: list[ConfigMap], expected: OwnershipDecision
) -> None:
    assert decide_deleting(marked(*finalizers), dependents) == expected


@pytest.mark.parametrize(
    ("owners", "dependents", "expected"),
    [
        ([], [], Keep()),
        ([SOLID], [], Keep()),
        ([SOLID, SOLID], [], Keep()),
        ([SOLID, GONE], [], SetOwners((ref("0", True),))),
        ([WAITING, SOLID], [], SetOwners((ref("1", True),))),
        ([GONE], [], Delete("Background")),
        ([GONE, GONE], [BLOCKING], Delete("Background")),
        ([WAITING], [], Delete("Background")),
        ([WAITING], [BLOCKING], Delete("Foreground")),
        ([WAITING, GONE], [LOOSE], Delete("Foreground")),
        ([WAITING], [dependent(True, FOREGROUND, deleting=True)], Unblock((ref("0", False),))),
    ],
)
def test_an_object_with_owners(
    owners: list[OwnerStanding], dependents: list[ConfigMap], expected: OwnershipDecision
) -> None:
    meta = ObjectMeta(uid="me", ownerReferences=tuple(ref(str(n), True) for n in range(len(owners))))
    assert decide_owned(meta, owners, dependents) == expected


@pytest.mark.parametrize(("finalizer", "policy"), [(ORPHAN, "Orphan"), (FOREGROUND, "Foreground")])
def test_an_object_is_deleted_the_way_its_finalizers_ask(finalizer: str, policy: str) -> None:
    meta = ObjectMeta(uid="me", finalizers=(finalizer,), ownerReferences=(ref("0"),))
    assert decide_owned(meta, [GONE], []) == Delete(policy)


def test_a_circle_is_unblocked_once_only() -> None:
    meta = ObjectMeta(uid="me", ownerReferences=(ref("0", False),))
    assert decide_owned(meta, [WAITING], [dependent(True, FOREGROUND, deleting=True)]) == Delete("Foreground")


def test_references_are_written_with_what_they_say() -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}
    assert owners_tree([ref("a"), ref("a", True)]) == [plain, {**plain, "blockOwnerDeletion": True}]
