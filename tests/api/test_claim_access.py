"""May this pod use this claim: what each check says, for each purpose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import Knowledge, PodClaims, Purpose, claim_problem, claims_of, missing_for
from dray.api.podclaims import Sharing
from dray.api.reasons.claims import ClaimCode
from dray.api.types.core import Pod, PodCondition
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.scheduling import PodGroup
from tests import objects

WAIT, PLACE, RESERVE, START = Purpose.WAIT, Purpose.PLACE, Purpose.RESERVE, Purpose.START
HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
BY_NAME = {"name": "e", "resourceClaimName": "c"}
FROM_TEMPLATE = {"name": "e", "resourceClaimTemplateName": "t"}
OF_GROUP = {"name": "e", "podGroupResourceClaim": "shared"}
MADE = [{"name": "e", "resourceClaimName": "c"}]
GROUP = msgspec.convert(
    {
        "metadata": {"name": "g", "namespace": "ns", "uid": "uid-g"},
        "spec": {
            "schedulingPolicy": {"basic": {}},
            "resourceClaims": [{"name": "shared", "resourceClaimTemplateName": "t"}],
        },
    },
    PodGroup,
)

EQUAL = {"name": "shared", "resourceClaimTemplateName": "t"}
MADE_EQUAL = [{"name": "shared", "resourceClaimName": "c"}]


def pod_with(
    *entries: dict[str, Any], made: list[dict[str, str]] | None = None, group: str = "", node: str = "n"
) -> Pod:
    """A pod with entries for claims, which were made for it, perhaps in a group."""
    member = {"schedulingGroup": {"podGroupName": group}} if group else {}
    tree = objects.pod(
        namespace="ns",
        node=node,
        metadata={"uid": "uid-p"},
        status={"resourceClaimStatuses": made or []},
        resourceClaims=list(entries or (BY_NAME,)),
        **member,
    )
    return msgspec.convert(tree, Pod)


def claim_that_is(
    *, owner: str = "", allocated: bool = False, users: int = 0, for_pod: bool = False, deleting: bool = False
) -> ResourceClaim:
    kind = "PodGroup" if owner == "g" else "Pod"
    owners = [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}]
    listed = [{"resource": "pods", "name": f"q{i}", "uid": f"uid-q{i}"} for i in range(users)]
    listed += [{"resource": "pods", "name": "p", "uid": "uid-p"}] if for_pod else []
    metadata = {
        "uid": "uid-c",
        "ownerReferences": owners if owner else [],
        "deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None,
    }
    status = {"reservedFor": listed, **({"allocation": {"nodeSelector": HERE}} if allocated else {})}
    one = objects.request(count=1, allocationMode="ExactCount")
    return msgspec.convert(objects.claim("c", one, namespace="ns", metadata=metadata, status=status), ResourceClaim)


def code(
    purpose: Purpose, wanted: Pod, found: ResourceClaim | None, group: PodGroup | None = None, **known: Any
) -> ClaimCode | None:
    [use] = podclaims.uses_of(wanted, group)
    problem = claim_problem(purpose, wanted, use, found, group, Knowledge(**known))
    return problem.code if problem is not None else None


def shared_with(consumer: str, *, deleting: bool = False) -> ResourceClaim:
    """An allocated claim that lists a group `g` or the workload of all pods."""
    claim = claim_that_is(allocated=True, deleting=deleting)
    assert claim.status.allocation is not None
    allocation = replace(claim.status.allocation, reservedForAnyPod=consumer != "g" or None)
    group = "scheduling.k8s.io" if consumer == "g" else "batch"
    kind = "podgroups" if consumer == "g" else "jobs"
    reference = ResourceClaimConsumerReference(apiGroup=group, resource=kind, name=consumer, uid=f"uid-{consumer}")
    return replace(claim, status=replace(claim.status, allocation=allocation, reservedFor=(reference,)))


def placed(time: str, group: str = "") -> Pod:
    """A pod that was bound at a time of the second in which claims of these tests are deleted, or of the day before."""
    day = "2025-12-31" if time > "12" else "2026-01-01"
    condition = PodCondition(type="PodScheduled", status="True", lastTransitionTime=f"{day}T{time}Z")
    pod = pod_with(group=group)
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


FULL = podclaims.RESERVATIONS_LIMIT


@pytest.mark.parametrize(
    ("purpose", "wanted", "found", "expected"),
    [
        (WAIT, pod_with(), None, ClaimCode.NOT_FOUND),
        (WAIT, pod_with(FROM_TEMPLATE), None, ClaimCode.NOT_CREATED),
        (WAIT, pod_with(FROM_TEMPLATE, made=MADE), claim_that_is(), ClaimCode.NOT_FOR_POD),
        (WAIT, pod_with(FROM_TEMPLATE, made=MADE), claim_that_is(owner="p"), None),
        (WAIT, pod_with(), claim_that_is(deleting=True), None),
        (PLACE, pod_with(), claim_that_is(), None),
        (PLACE, pod_with(), claim_that_is(deleting=True), ClaimCode.DELETING),
        (PLACE, pod_with(), claim_that_is(allocated=True, users=1, deleting=True), ClaimCode.DELETING),
        (PLACE, pod_with(), claim_that_is(allocated=True, for_pod=True, deleting=True), None),
        (PLACE, pod_with(), claim_that_is(allocated=True, users=FULL), ClaimCode.FULL),
        (PLACE, pod_with(), claim_that_is(allocated=True, users=FULL - 1, for_pod=True), None),
        (RESERVE, pod_with(), claim_that_is(), ClaimCode.NOT_ALLOCATED),
        (RESERVE, pod_with(), claim_that_is(allocated=True), None),
        (RESERVE, pod_with(node="m"), claim_that_is(allocated=True), ClaimCode.OUT_OF_REACH),
        (RESERVE, pod_with(), claim_that_is(allocated=True, deleting=True), ClaimCode.DELETING),
        (RESERVE, pod_with(), claim_that_is(allocated=True, users=FULL), ClaimCode.FULL),
        (START, pod_with(), None, ClaimCode.NOT_FOUND),
        (START, pod_with(), claim_that_is(), ClaimCode.NOT_ALLOCATED),
        (START, pod_with(), claim_that_is(allocated=True, users=1), ClaimCode.NOT_RESERVED),
        (START, pod_with(), claim_that_is(allocated=True, for_pod=True, deleting=True), None),
        (START, pod_with(FROM_TEMPLATE, made=MADE), claim_that_is(allocated=True, for_pod=True), ClaimCode.NOT_FOR_POD),
        (PLACE, pod_with(), shared_with("w", deleting=True), ClaimCode.DELETING),
        (PLACE, pod_with(group="g"), shared_with("g", deleting=True), ClaimCode.DELETING),
        (START, placed("23:59:59"), shared_with("w", deleting=True), None),
        (START, placed("00:00:00"), shared_with("w", deleting=True), ClaimCode.DELETING),
        (START, placed("00:00:00", group="g"), shared_with("g", deleting=True), ClaimCode.DELETING),
        (START, placed("00:00:00"), shared_with("w"), None),
    ],
)
def test_each_purpose_has_its_checks(
    purpose: Purpose, wanted: Pod, found: ResourceClaim | None, expected: ClaimCode | None
) -> None:
    assert code(purpose, wanted, found) is expected


def test_what_the_caller_knows_beside_the_objects() -> None:
    assert code(PLACE, pod_with(), claim_that_is(), is_promised=lambda uid: uid == "uid-c") is ClaimCode.BEING_ALLOCATED
    assert code(PLACE, pod_with(), claim_that_is(), has_class=lambda name: name != "gpu") is ClaimCode.CLASS_MISSING


@pytest.mark.parametrize(
    ("wanted", "group", "found", "expected"),
    [
        (pod_with(OF_GROUP, made=MADE, group="g"), GROUP, claim_that_is(owner="g"), None),
        (pod_with(OF_GROUP, made=MADE, group="g"), GROUP, claim_that_is(owner="p"), ClaimCode.NOT_FOR_GROUP),
        (
            pod_with(EQUAL, made=MADE_EQUAL, group="g", node=""),
            GROUP,
            claim_that_is(owner="p"),
            ClaimCode.NOT_FOR_GROUP,
        ),
        (
            pod_with(EQUAL, made=MADE_EQUAL, group="g"),
            GROUP,
            claim_that_is(owner="p"),
            None,
        ),  # placed while groups meant nothing
        (pod_with(EQUAL, made=MADE_EQUAL, group="g"), GROUP, claim_that_is(owner="q"), ClaimCode.NOT_FOR_GROUP),
        (pod_with(OF_GROUP, made=MADE, group="g"), None, claim_that_is(owner="g"), ClaimCode.GROUP_MISSING),
        (pod_with({**OF_GROUP, "podGroupResourceClaim": "x"}, group="g"), GROUP, None, ClaimCode.GROUP_LACKS_CLAIM),
        (pod_with(OF_GROUP, group="g"), GROUP, None, ClaimCode.NOT_CREATED),
    ],
)
def test_claims_of_a_group(
    wanted: Pod, group: PodGroup | None, found: ResourceClaim | None, expected: ClaimCode | None
) -> None:
    problem = missing_for(wanted, group, lambda _: found, Knowledge())
    assert (problem.code if problem is not None else None) is expected


def test_where_groups_mean_nothing_a_claim_made_for_the_group_passes_for_the_pods_own() -> None:
    wanted = pod_with(OF_GROUP, made=MADE, group="g")
    assert code(WAIT, wanted, claim_that_is(owner="g"), sharing=Sharing(groups=False)) is None
    assert code(START, wanted, claim_that_is(owner="g", allocated=True), sharing=Sharing(groups=False)) is (
        ClaimCode.NOT_RESERVED
    )


def test_a_missing_claim_comes_before_what_is_wrong_with_another() -> None:
    wanted = pod_with({"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "gone"})
    found = claims_of(wanted, None, lambda name: claim_that_is(deleting=True) if name == "c" else None, Knowledge())
    assert not isinstance(found, PodClaims)
    assert (found.code, found.claim) == (ClaimCode.NOT_FOUND, "gone")


def test_two_entries_may_name_one_claim() -> None:
    wanted = pod_with({"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "c"})
    one = claim_that_is()
    found = claims_of(wanted, None, lambda _: one, Knowledge())
    assert isinstance(found, PodClaims)
    assert (len(found.uses), found.pending, found.allocated) == (1, [one], [])
