"""Every served version is a view of the stored form: nothing is lost on the way there and back."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.api import conversion, decode, defaults
from dray.api.gates import FeatureGates
from dray.api.resources import BY_NAME, DRA, RESOURCES, SCHEDULING, Resource
from dray.api.types import scheduling
from dray.api.wire import Tree
from tests.api.trees import trees

MANY_VERSIONS = [
    pytest.param(resource, version, id=f"{resource.kind}-{version}")
    for resource in RESOURCES
    for version in resource.versions
    if version != resource.stored or resource.alias_of
]


def _sensible(resource: Resource, tree: Tree) -> Tree:
    """A stored tree without the few states that validation never lets in."""
    spec = tree.setdefault("spec", {})
    claim = spec.get("spec", {}) if resource.kind == "ResourceClaimTemplate" else spec
    if resource.kind.startswith("ResourceClaim"):
        for request in (claim.get("devices") or {}).get("requests") or ():
            if request.get("firstAvailable"):
                request.pop("exactly", None)
            else:
                request["exactly"] = {"deviceClassName": "gpu", **request.get("exactly", {})}
    if resource.kind == "ResourceSlice":
        defaults.apply_defaults(resource, tree, FeatureGates())
        spec.pop("nodeName", None)
        if spec.get("allNodes") is False:
            del spec["allNodes"]
    if resource.kind in ("PodGroup", "Workload"):
        for holder in [spec, *(spec.get("podGroupTemplates") or ())]:
            holder["schedulingPolicy"] = {"gang": {"minCount": 2}}
        if resource.kind == "Workload":
            del spec["schedulingPolicy"]
        if not any((spec.get("workloadRef") or {}).values()):
            spec.pop("workloadRef", None)
    for place, template in enumerate(spec.get("podGroupTemplates") or ()):
        template["name"] = f"t{place}"
    if resource.kind == "ResourcePoolStatusRequest" and "status" in tree:
        _sensible_pools(tree["status"])
    return tree


def _sensible_pools(status: Tree) -> None:
    status["poolCount"] = max(status.get("poolCount", 0), len(status.get("pools") or ()))
    for place, pool in enumerate(status.get("pools") or ()):
        pool["poolName"] = f"pool-{place}"
        pool.pop("validationError", None)
        for name in (
            "resourceSliceCount",
            "totalDevices",
            "allocatedDevices",
            "availableDevices",
            "unavailableDevices",
        ):
            pool.setdefault(name, 1)


@pytest.mark.parametrize(("resource", "version"), MANY_VERSIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_stored_objects_survive_every_version(resource: Resource, version: str, data: st.DataObject) -> None:
    home = resource.home
    tree = _sensible(resource, data.draw(trees(home.message())))
    if home.kind == "Event":
        tree.pop("spec", None)
    stored = decode.to_object(home, copy.deepcopy(tree))
    shown = conversion.from_stored(resource, version, msgspec.json.decode(msgspec.json.encode(stored)))
    assert shown["apiVersion"] == resource.api_version(version)
    assert decode.check(resource, version, copy.deepcopy(shown)) == [], "the version knows every field that it shows"
    decode.check(resource, version, shown)
    again = decode.to_object(home, conversion.to_stored(resource, version, shown, stored))
    assert again == stored


def _stored(group: str, plural: str, version: str, tree: Tree, **options: Any) -> Tree:
    resource = BY_NAME[group, plural]
    assert decode.check(resource, version, tree) == []
    return conversion.to_stored(resource, version, tree, **options)


def test_v1beta1_requests_are_flat() -> None:
    flat = {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "count": 2}]}}}
    stored = _stored(DRA, "resourceclaims", "v1beta1", flat)
    assert stored["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]


def test_v1beta1_requests_with_alternatives_have_no_main_request() -> None:
    flat = {
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "", "firstAvailable": [{"name": "a"}]}]}}
    }
    stored = _stored(DRA, "resourceclaims", "v1beta1", flat)
    assert stored["spec"]["devices"]["requests"] == [{"name": "r", "firstAvailable": [{"name": "a"}]}]


@pytest.mark.parametrize(
    ("flat", "exactly"),
    [({}, False), ({"deviceClassName": "", "count": 0}, False), ({"adminAccess": False}, True), ({"count": 2}, True)],
)
def test_a_v1beta1_request_that_says_nothing_asks_for_nothing(flat: Tree, exactly: bool) -> None:
    stored = _stored(DRA, "resourceclaims", "v1beta1", {"spec": {"devices": {"requests": [{"name": "r", **flat}]}}})
    assert ("exactly" in stored["spec"]["devices"]["requests"][0]) is exactly


def test_v1beta1_devices_are_basic() -> None:
    resource = BY_NAME[DRA, "resourceslices"]
    shown = conversion.from_stored(resource, "v1beta1", {"spec": {"devices": [{"name": "d", "allNodes": True}]}})
    assert shown["spec"]["devices"] == [{"name": "d", "basic": {"allNodes": True}}]


def test_a_v1alpha1_group_takes_the_policy_of_its_template() -> None:
    workload = scheduling.Workload(
        spec=scheduling.WorkloadSpec(
            podGroupTemplates=(
                scheduling.PodGroupTemplate(
                    name="t",
                    schedulingPolicy=scheduling.PodGroupSchedulingPolicy(gang=scheduling.GangSchedulingPolicy(3)),
                ),
            )
        )
    )

    def lookup(name: str) -> scheduling.Workload | None:
        return workload if name == "w" else None

    def group(template: str) -> Tree:
        spec = {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": template}}
        return _stored(SCHEDULING, "podgroups", "v1alpha1", {"spec": spec}, workloads=lookup)["spec"]

    assert group("t")["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert group("t")["workloadRef"] == {"workloadName": "w", "templateName": "t"}
    assert group("other")["schedulingPolicy"] == {"basic": {}}


def test_truncated_means_that_more_pools_match_than_are_listed() -> None:
    resource = BY_NAME[DRA, "resourcepoolstatusrequests"]
    pools = [{"driver": "d", "poolName": "p"}]
    cut = conversion.from_stored(resource, "v1alpha1", {"status": {"poolCount": 3, "pools": copy.deepcopy(pools)}})
    assert cut["status"]["truncated"] is True
    assert cut["status"]["totalMatchingPools"] == 3
    whole = conversion.from_stored(resource, "v1alpha1", {"status": {"poolCount": 1, "pools": pools}})
    assert (whole["status"]["truncated"], whole["status"]["totalMatchingPools"]) == (False, 1)
    none = conversion.from_stored(resource, "v1alpha1", {"status": {"poolCount": 0}})
    assert (none["status"]["truncated"], none["status"]["totalMatchingPools"]) == (False, 0)


def test_errors_of_pools_are_listed_in_v1alpha1() -> None:
    resource = BY_NAME[DRA, "resourcepoolstatusrequests"]
    stored = {"status": {"poolCount": 1, "pools": [{"poolName": "p", "validationError": "incomplete"}]}}
    shown = conversion.from_stored(resource, "v1alpha1", stored)
    assert shown["status"]["validationErrors"] == ["pool p: incomplete"]


def test_events_of_both_groups_are_one() -> None:
    tree = {"regarding": {"kind": "Pod"}, "note": "n", "reportingController": "c", "deprecatedCount": 2}
    stored = _stored("events.k8s.io", "events", "v1", tree)
    assert stored["apiVersion"] == "v1"
    assert (stored["involvedObject"], stored["message"]) == ({"kind": "Pod"}, "n")
    assert (stored["reportingComponent"], stored["count"]) == ("c", 2)
