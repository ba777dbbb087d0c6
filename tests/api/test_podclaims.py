"""The rules about pods and their claims that all parts share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api import podclaims
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing, Use
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from tests import objects

NOTHING = Sharing(groups=False, workloads=False)
POD = {"resource": "pods", "name": "p", "uid": "pod-uid"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-uid"}
OLD_GROUP = {**GROUP, "uid": "old-group-uid"}
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "p", "uid": "job-uid"}


def pod_in_group(*entries: dict[str, str], group: str = "g", recorded: dict[str, str | None] | None = None) -> Pod:
    """A pod of a group, with entries for claims and the claims that are recorded for them."""
    tree = objects.pod(
        namespace="ns",
        metadata={"uid": "pod-uid"},
        resourceClaims=list(entries),
        status={"resourceClaimStatuses": [{"name": n, "resourceClaimName": c} for n, c in (recorded or {}).items()]},
        **({"schedulingGroup": {"podGroupName": group}} if group else {}),
    )
    return msgspec.convert(tree, Pod)


def group(*entries: dict[str, str]) -> PodGroup:
    tree = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "group-uid"},
        "spec": {"resourceClaims": list(entries)},
    }
    return msgspec.convert(tree, PodGroup)


def claim_for(
    *consumers: dict[str, str], any_pod: bool | None = None, allocated: bool = True, meant: dict[str, str] | None = None
) -> ResourceClaim:
    """A claim that is reserved for consumers."""
    status: dict[str, Any] = {"reservedFor": list(consumers)}
    if allocated:
        status["allocation"] = {"reservedForAnyPod": any_pod}
    return msgspec.convert(objects.claim(namespace="ns", reserved_for=meant, status=status), ResourceClaim)


def test_both_fields_name_the_group() -> None:
    assert podclaims.group_name(pod_in_group()) == "g"
    assert podclaims.group_name(pod_in_group(group="")) == ""
    tree = {"spec": {"workloadRef": {"name": "w", "podGroupName": "seed"}}}
    assert podclaims.group_name(msgspec.convert(tree, Pod)) == "seed"


@pytest.mark.parametrize(
    ("entry", "shared", "recorded", "expected"),
    [
        ({"resourceClaimName": "c"}, {}, {}, Use("e", "c", generated=False, by_group=False)),
        ({"resourceClaimTemplateName": "t"}, {}, {}, Use("e", None, generated=True, by_group=False)),
        ({"resourceClaimTemplateName": "t"}, {}, {"e": "x"}, Use("e", "x", generated=True, by_group=False)),
        ({"resourceClaimTemplateName": "t"}, {}, {"e": None}, Use("e", None, True, by_group=False, needed=False)),
        (
            {"podGroupResourceClaim": "a"},
            {"name": "a", "resourceClaimTemplateName": "t"},
            {"e": "x"},
            Use("e", "x", generated=True, by_group=True),
        ),
        (
            {"podGroupResourceClaim": "a"},
            {"name": "a", "resourceClaimName": "c"},
            {},
            Use("e", "c", generated=False, by_group=True),
        ),
        (
            {"resourceClaimName": "c"},
            {"name": "e", "resourceClaimName": "c"},
            {},
            Use("e", "c", generated=False, by_group=True),
        ),
        (
            {"resourceClaimTemplateName": "t"},
            {"name": "e", "resourceClaimTemplateName": "other"},
            {"e": "x"},
            Use("e", "x", generated=True, by_group=False),
        ),
        (
            {"resourceClaimName": "c"},
            {"name": "other", "resourceClaimName": "c"},
            {},
            Use("e", "c", generated=False, by_group=False),
        ),
    ],
)
def test_an_entry_resolves_to_a_claim(
    entry: dict[str, str], shared: dict[str, str], recorded: dict[str, str | None], expected: Use
) -> None:
    member = pod_in_group({"name": "e", **entry}, recorded=recorded)
    assert podclaims.uses_of(member, group(*([shared] if shared else []))) == [expected]


@pytest.mark.parametrize(
    ("reserved", "sharing", "allowed"),
    [
        (claim_for(), Sharing(), False),
        (claim_for(POD, allocated=False), Sharing(), False),
        (claim_for(POD), NOTHING, True),
        (claim_for(GROUP), Sharing(), True),
        (claim_for(GROUP), NOTHING, False),
        (claim_for(OLD_GROUP), Sharing(), True),  # the name decides
        (claim_for({**GROUP, "name": "other"}), Sharing(), False),
        (claim_for(JOB), Sharing(), False),  # of the pod's name, but no pod
        (claim_for(JOB, any_pod=True), Sharing(), True),
        (claim_for(JOB, any_pod=True), NOTHING, False),
        (claim_for(any_pod=True), Sharing(), True),
    ],
)
def test_allowed_pods_are_listed_or_of_a_listed_group_or_any(
    reserved: ResourceClaim, sharing: Sharing, allowed: bool
) -> None:
    assert podclaims.may_use(reserved, pod_in_group(), sharing) is allowed


@pytest.mark.parametrize(
    ("reserved", "by_group", "sharing", "added"),
    [
        (claim_for(), False, Sharing(), POD),
        (claim_for(POD), False, Sharing(), None),
        (claim_for(GROUP), False, Sharing(), POD),  # any other pod adds itself, also beside a group's reference
        (claim_for(POD), True, Sharing(), GROUP),
        (claim_for(OLD_GROUP), True, Sharing(), GROUP),
        (claim_for(GROUP), True, Sharing(), None),
        (claim_for(JOB, any_pod=True), False, Sharing(), None),
        (claim_for(JOB, any_pod=True), True, Sharing(), None),
        (claim_for(POD, any_pod=True, meant=JOB), False, Sharing(), None),
        (claim_for(any_pod=True, meant=JOB), False, Sharing(), JOB),  # nobody is listed: as for the first pod
        (claim_for(any_pod=True, meant=JOB), True, Sharing(), JOB),
        (claim_for(any_pod=True), False, Sharing(), POD),
        (claim_for(any_pod=True), True, Sharing(), GROUP),
        (claim_for(meant=JOB), False, Sharing(), POD),
        (claim_for(JOB), False, Sharing(), POD),  # only reservedForAnyPod means nobody
        (claim_for(JOB, any_pod=True), False, NOTHING, POD),
    ],
)
def test_who_is_added_to_the_reservations(
    reserved: ResourceClaim, by_group: bool, sharing: Sharing, added: dict[str, str] | None
) -> None:
    consumer = podclaims.consumer_to_add(reserved, pod_in_group(), group() if by_group else None, sharing)
    assert msgspec.to_builtins(consumer) == added


def test_what_is_shared_follows_the_gates() -> None:
    assert Sharing.of(FeatureGates()) == NOTHING
    gates = FeatureGates.parse("GenericWorkload=true,DRAWorkloadResourceClaims=true,DRAReservedForWorkloads=true")
    assert Sharing.of(gates) == Sharing()


@pytest.mark.parametrize(
    ("node", "phase", "holds"), [("n", "Running", True), ("n", "Failed", False), ("", "Pending", False)]
)
def test_only_a_scheduled_unfinished_pod_may_hold_devices(node: str, phase: str, holds: bool) -> None:
    tree = {"spec": {"nodeName": node}, "status": {"phase": phase}}
    assert podclaims.holds_devices(msgspec.convert(tree, Pod)) is holds


@pytest.mark.parametrize(
    ("kind", "controller", "pod", "group"),
    [
        ("Pod", True, "g", None),
        ("PodGroup", True, None, "g"),
        ("PodGroup", False, None, None),
        ("Job", True, None, None),
    ],
)
def test_a_claim_is_made_for_the_pod_or_group_that_controls_it(
    kind: str, controller: bool, pod: str | None, group: str | None
) -> None:
    owner = {"apiVersion": "v1", "kind": kind, "name": "g", "uid": "u", "controller": controller}
    other = {"apiVersion": "v1", "kind": "Pod", "name": "bystander", "uid": "x"}
    made = msgspec.convert({"metadata": {"ownerReferences": [other, owner]}}, ResourceClaim)
    names = [ref and ref.name for ref in (podclaims.made_for(made, "Pod"), podclaims.made_for(made, "PodGroup"))]
    assert names == [pod, group]
    assert podclaims.is_made_for_group(made, "g") is (group == "g")
    assert not podclaims.is_made_for_group(made, "other")
