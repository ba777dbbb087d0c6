"""A claim that is being deleted: who uses it still, or which finalizers hold it, and who takes them off."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.reasons.causes.deleting import ClaimFinalizersLeft, IsDeleting
from dray.api.types.resource import ResourceClaim
from dray.inspect.explain import explain_claim
from dray.inspect.snapshot import Snapshot
from tests import objects

PROTECTION = "resource.kubernetes.io/delete-protection"
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]}}


def deleted(*finalizers: str, **status: Any) -> ResourceClaim:
    metadata = {"finalizers": [*finalizers], "deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}
    tree = objects.claim("c", objects.request("r"), namespace="default", metadata=metadata)
    return msgspec.convert({**tree, "status": status}, ResourceClaim)


@pytest.mark.parametrize(
    ("claim", "cause"),
    [
        (deleted("example.com/hold"), ClaimFinalizersLeft(("example.com/hold",))),
        (deleted(PROTECTION, allocation=ALLOCATION), ClaimFinalizersLeft((PROTECTION,), allocated=True)),
        (
            deleted(PROTECTION, allocation=ALLOCATION, reservedFor=[{"resource": "pods", "name": "p", "uid": "v"}]),
            IsDeleting(("pod p",)),
        ),
    ],
)
def test_a_deleted_claim_says_what_holds_it(claim: ResourceClaim, cause: object) -> None:
    assert explain_claim(Snapshot.of(claim), "default", "c").cause == cause


@pytest.mark.wording
def test_the_words_say_who_takes_a_finalizer_off() -> None:
    assert "remove them from metadata.finalizers" in ClaimFinalizersLeft(("example.com/hold",)).text
    ours = ClaimFinalizersLeft((PROTECTION,), allocated=True).text
    assert "the resource claim controller removes that one, after it has given up the devices" in ours
