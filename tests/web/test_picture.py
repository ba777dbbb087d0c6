"""What a page is shown: the first picture, and every change of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.apiserver.security.certificates import Keys
from tests import objects
from tests.web.serving import CLASS, DRIVER, Browser, Served, allocate, browser, device, publish, served, slice_tree


async def test_the_first_picture_has_nodes_classes_drivers_pools_and_devices(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))

    async with admin.page() as page:
        node = page.row("nodes", "n1")
        assert node is not None
        assert (page.strings[node["zone"]], page.strings[node["rack"]], node["ready"]) == ("z1", "r7", True)
        assert "example.com/rack=r7" in [page.strings[label] for label in node["labels"]]
        pool, driver = page.row("pools", "n1"), page.row("drivers", DRIVER)
        assert pool is not None
        assert driver is not None
        assert (pool["driver"], pool["node"], pool["problem"]) == (driver["id"], node["id"], "")
        assert (driver["devices"], driver["slices"], driver["nodes"]) == (2, 1, [node["id"]])
        gpu = page.row("devices", "gpu-1")
        assert gpu is not None
        assert (gpu["pool"], gpu["cell"], gpu["claims"]) == (pool["id"], gpu["id"], [])
        assert page.state("gpu-0") == page.state("gpu-1") == "free"
        assert page.row("classes", CLASS) is not None
        assert page.hello["lifecycle"]["pending"]["allocate"] == "reserved"


async def test_names_of_what_comes_and_goes_are_not_kept(server: Served, admin: Browser) -> None:
    """Jobs come and go by the thousand, and strings with numbers are kept for as long as the picture."""
    async with admin.page() as page:
        for number in range(3):
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number}", "uid": "u", "controller": True}
            pod = objects.pod(f"p{number}", schedulingGates=[{"name": "wait"}])
            pod["metadata"]["ownerReferences"] = [owner]
            await server.client.create(Pod, pod, namespace="default")
            row = await page.wait(lambda number=number: page.row("pods", f"p{number}"))
            assert row["owner"] == f"Job/job-{number}"
            if not number:
                known = len(page.strings)
        assert len(page.strings) == known


async def test_a_device_is_shown_as_it_is_allocated_reserved_and_freed(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    async with admin.page() as page:
        await allocate(server.client, "mine", "n1", "gpu-0")
        await page.wait(lambda: page.state("gpu-0") == "reserved")
        await page.wait(lambda: page.claim_state("mine") == "reserved")
        gpu, claim = page.row("devices", "gpu-0"), page.row("claims", "mine")
        assert gpu is not None
        assert claim is not None
        assert (gpu["claims"], claim["devices"]) == ([claim["id"]], [gpu["id"]])
        assert claim["consumers"] == [["pods", "user-of-mine", "uid-mine"]]
        assert claim["requests"] == [["r", CLASS, 1, []]]
        assert gpu["since"] is not None

        await server.client.patch(
            ResourceClaim, "mine", {"status": {"reservedFor": None}}, "default", subresource="status"
        )
        await page.wait(lambda: page.state("gpu-0") == "idle")
        assert page.claim_state("mine") == "allocated"

        await server.client.patch(
            ResourceClaim, "mine", {"status": {"allocation": None}}, "default", subresource="status"
        )
        await page.wait(lambda: page.state("gpu-0") == "free")
        await server.client.delete(ResourceClaim, "mine", "default")
        await page.wait(lambda: page.row("claims", "mine") is None)


async def test_taints_of_rules_and_of_devices_keep_a_device_back(server: Served, admin: Browser) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    await publish(server.client, "n1", device("gpu-0", taints=[taint]), device("gpu-1"))
    async with admin.page() as page:
        assert page.state("gpu-0") == "tainted"
        rule = {
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {"driver": DRIVER, "device": "gpu-1"}, "taint": taint},
        }
        await server.client.create(DeviceTaintRule, rule)
        await page.wait(lambda: page.state("gpu-1") == "tainted")
        gpu = page.row("devices", "gpu-1")
        assert gpu is not None
        known = await admin.ask("device", id=gpu["id"])
        assert known["taints"] == [{"key": "k", "value": "", "effect": "NoSchedule", "rule": "r"}]
        await server.client.delete(DeviceTaintRule, "r")
        await page.wait(lambda: page.state("gpu-1") == "free")


async def test_a_pool_that_lacks_slices_is_incomplete(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), slices=2)
    async with admin.page() as page:
        assert page.state("gpu-0") == "incomplete"
        pool = page.row("pools", "n1")
        assert pool is not None
        assert (pool["problem"], pool["slices"], pool["expected"]) == ("slices-missing", 1, 2)
        await server.client.create(ResourceSlice, slice_tree("n1", device("gpu-1"), name="second", slices=2))
        await page.wait(lambda: page.state("gpu-0") == page.state("gpu-1") == "free")


async def test_a_device_that_is_held_but_published_no_more_stays_on_the_map(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await allocate(server.client, "mine", "n1", "gpu-0")
    async with admin.page() as page:
        await server.client.delete(ResourceSlice, "n1-slice")
        await page.wait(lambda: page.state("gpu-0") == "unpublished")
        await server.client.patch(
            ResourceClaim,
            "mine",
            {"status": {"allocation": None, "reservedFor": None}},
            "default",
            subresource="status",
        )
        await page.wait(lambda: page.row("devices", "gpu-0") is None)
        await page.wait(lambda: page.row("pools", "n1") is None)
        await page.wait(lambda: page.row("drivers", DRIVER) is None)


async def test_partitions_are_drawn_in_their_device_and_exclude_each_other(server: Served, admin: Browser) -> None:
    def part(name: str, amount: str) -> dict[str, object]:
        return device(name, consumesCounters=[{"counterSet": "g", "counters": {"memory": {"value": amount}}}])

    counters = [{"name": "g", "counters": {"memory": {"value": "40Gi"}}}]
    await server.client.create(ResourceSlice, slice_tree("n1", name="counters", slices=2, sharedCounters=counters))
    await publish(server.client, "n1", part("half", "20Gi"), part("whole", "40Gi"), part("rest", "20Gi"), slices=2)
    async with admin.page() as page:
        whole, half = page.row("devices", "whole"), page.row("devices", "half")
        assert whole is not None
        assert half is not None
        assert (half["cell"], whole["cell"]) == (whole["id"], whole["id"])
        assert half["flags"] == 8
        assert (half["share"], whole["share"]) == (0.5, 1)
        await allocate(server.client, "mine", "n1", "half")
        await page.wait(lambda: page.state("whole") == "excluded")
        assert (page.state("half"), page.state("rest")) == ("reserved", "free")
        known = await admin.ask("device", id=whole["id"])
        assert known["counters"] == [{"set": "g", "counters": {"memory": {"needed": "40Gi", "left": "20Gi"}}}]


async def test_a_shared_device_says_how_much_of_it_is_used(server: Served, admin: Browser) -> None:
    shared = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}})
    await publish(server.client, "n1", shared)
    async with admin.page() as page:
        share = {"shareID": "a1b2c3d4-0000-0000-0000-000000000001", "consumedCapacity": {"bandwidth": "4G"}}
        await allocate(server.client, "mine", "n1", "nic", **share)
        await page.wait(lambda: page.state("nic") == "shared")
        nic = page.row("devices", "nic")
        assert nic is not None
        assert (nic["used"], nic["flags"]) == (0.4, 4)
        assert (await admin.ask("device", id=nic["id"]))["capacity"]["bandwidth"] == {"value": "10G", "used": "4G"}


async def test_a_device_that_its_driver_calls_not_ready_is_unhealthy(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await allocate(server.client, "mine", "n1", "gpu-0")
    async with admin.page() as page:
        condition = {
            "type": "Ready",
            "status": "False",
            "reason": "Overheated",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        told = [{"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": [condition]}]
        await server.client.patch(ResourceClaim, "mine", {"status": {"devices": told}}, "default", subresource="status")
        await page.wait(lambda: page.state("gpu-0") == "unhealthy")
        claim, gpu = page.row("claims", "mine"), page.row("devices", "gpu-0")
        assert claim is not None
        assert gpu is not None
        assert claim["prepared"] == [[gpu["id"], False]]
        await page.wait(lambda: (page.row("drivers", DRIVER) or {})["unhealthy"] == 1)


async def test_a_device_that_a_node_calls_unhealthy_is_so(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    await allocate(server.client, "mine", "n1", "gpu-0")
    uses = [{"name": "gpu", "resourceClaimName": "mine"}]
    await server.client.create(Pod, objects.pod("user", node="n1", resourceClaims=uses), namespace="default")
    async with admin.page() as page:
        for health, shown in (("Unhealthy", "unhealthy"), ("Healthy", "reserved")):
            told = [{"name": "claim:gpu/r", "resources": [{"resourceID": "example.com/gpu=0", "health": health}]}]
            container = {
                "name": "c",
                "image": "app",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "allocatedResourcesStatus": told,
            }
            status = {"status": {"containerStatuses": [container]}}
            await server.client.patch(Pod, "user", status, "default", subresource="status")
            await page.wait(lambda shown=shown: page.state("gpu-0") == shown)  # type: ignore[misc]
            assert page.state("gpu-1") == "free"


async def test_pods_that_wait_or_use_claims_are_shown_with_them(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    uses = [{"name": "gpu", "resourceClaimName": "mine"}]
    await server.client.create(Pod, objects.pod("plain", node="n1"), namespace="default")
    await server.client.create(Pod, objects.pod("waits", resourceClaims=uses), namespace="default")
    async with admin.page() as page:
        assert page.row("pods", "plain") is None
        pod = page.row("pods", "waits")
        assert pod is not None
        assert (pod["state"], pod["node"], pod["claims"]) == (0, None, [])
        await allocate(server.client, "mine", "n1", "gpu-0")
        await page.wait(lambda: (page.row("pods", "waits") or {})["claims"])
        claim, pod = page.row("claims", "mine"), page.row("pods", "waits")
        assert claim is not None
        assert pod is not None
        assert (claim["pods"], pod["claims"]) == ([pod["id"]], [claim["id"]])
        await server.client.delete(Pod, "waits", "default", grace=0)
        await page.wait(lambda: page.row("pods", "waits") is None and not (page.row("claims", "mine") or {})["pods"])


async def test_groups_count_their_pods_and_share_claims(tmp_path: Path, keys: Keys) -> None:
    async with served(tmp_path, keys, gates="AllAlpha=true,AllBeta=true") as server, browser(server.origin) as admin:
        await admin.sign_in(code=server.code())
        entry = {"name": "gpu", "resourceClaimName": "ours"}
        group = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [entry]}
        await server.client.create(PodGroup, {"metadata": {"name": "gang"}, "spec": group}, namespace="default")
        await publish(server.client, "n1", device("gpu-0"))
        await allocate(server.client, "ours", "n1", "gpu-0")
        member = {"schedulingGroup": {"podGroupName": "gang"}, "resourceClaims": [entry]}
        await server.client.create(Pod, objects.pod("a", **member), namespace="default")
        async with admin.page() as page:
            await server.client.create(Pod, objects.pod("b", node="n1", **member), namespace="default")
            await page.wait(lambda: (page.row("groups", "gang") or {})["pods"] == 2)
            row, claim = page.row("groups", "gang"), page.row("claims", "ours")
            assert row is not None
            assert claim is not None
            assert (row["placed"], row["wanted"], row["claims"]) == (1, 2, [claim["id"]])
            assert page.strings[row["kind"]] == "PodGroup"
            await page.wait(lambda: len((page.row("claims", "ours") or {})["pods"]) == 2)
            pods = [page.row("pods", name) for name in ("a", "b")]
            assert [pod["group"] for pod in pods if pod] == [row["id"]] * 2


async def test_a_group_says_whether_it_is_placed_in_which_domain_and_what_it_waits_for(
    tmp_path: Path, keys: Keys
) -> None:
    async with served(tmp_path, keys, gates="AllAlpha=true,AllBeta=true") as server, browser(server.origin) as admin:
        await admin.sign_in(code=server.code())
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
        await server.client.create(PodGroup, {"metadata": {"name": "gang"}, "spec": spec}, namespace="default")
        said = {
            "type": "PodGroupInitiallyScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "not yet",
        }
        told = {"conditions": [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        await server.client.patch(PodGroup, "gang", {"status": told}, "default", subresource="status")
        member = {"schedulingGroup": {"podGroupName": "gang"}}
        await server.client.create(Pod, objects.pod("a", node="n1", **member), namespace="default")
        await server.client.create(Pod, objects.pod("b", **member), namespace="default")
        async with admin.page() as page:

            def fares() -> tuple[str, str, str]:
                row = page.row("groups", "gang")
                return (page.strings[row["fares"]], row["domain"], row["waits"]) if row else ("", "", "")

            await page.wait(lambda: fares() == ("waiting", "", "not yet"))
            await server.client.create(Node, {"metadata": {"name": "n1", "labels": {"rack": "r7"}}})
            await page.wait(lambda: fares() == ("waiting", "r7", "not yet"))
            await server.client.delete(Pod, "b", "default", grace=0)
            await server.client.create(Pod, objects.pod("b", node="n1", **member), namespace="default")
            await page.wait(lambda: fares() == ("placed", "r7", ""))


async def test_pods_that_wait_get_the_cause_that_explain_gives(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    for name in ("a", "b"):
        uses = [{"name": "gpu", "resourceClaimName": "absent"}]
        await server.client.create(Pod, objects.pod(name, resourceClaims=uses), namespace="default")
    async with admin.page() as page:
        await page.wait(lambda: (page.row("pods", "b") or {})["cause"] is not None)
        pod = page.row("pods", "b")
        assert pod is not None
        cause = page.tables["causes"][pod["cause"]]
        assert (cause["code"], cause["pods"]) == ("ClaimMissing", 2)
        await server.client.delete(Pod, "a", "default", grace=0)
        await server.client.delete(Pod, "b", "default", grace=0)
        await page.wait(lambda: not page.tables["causes"])


async def test_samples_count_devices_and_allocations(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    async with admin.page() as page:
        await allocate(server.client, "mine", "n1", "gpu-0")
        await page.wait(lambda: any(sample["allocations"] for sample in page.samples))
        last = page.samples[-1]
        assert (last["devices"], last["allocated"], last["unusable"], last["waiting"]) == (2, 1, 0, 0)
        _, series = await admin.get("api/series")
        assert series["columns"]["allocated"][-1] == 1
        assert series["from"] <= series["until"]


async def test_names_are_text_whatever_they_look_like(server: Served, admin: Browser) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    long = "p" * 253
    await publish(server.client, "n1", device("gpu-0", attributes={"model": {"string": hostile}}))
    await server.client.create(Pod, objects.pod(long), namespace="default")
    async with admin.page() as page:
        assert page.row("pods", long) is not None
        gpu = page.row("devices", "gpu-0")
        assert gpu is not None
        known = await admin.ask("device", id=gpu["id"])
        assert known["attributes"]["model"] == {"type": "string", "value": hostile}
    async with admin.session.get(f"{admin.base}api/series") as answer:
        assert answer.content_type == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["n1", "n2"])
async def test_a_node_that_goes_is_gone(server: Served, admin: Browser, name: str) -> None:
    await publish(server.client, name, device("gpu-0"))
    async with admin.page() as page:
        await server.client.delete(Node, name)
        await page.wait(lambda: page.row("nodes", name) is None)


async def test_a_device_that_two_claims_share_is_held_until_both_let_go(server: Served, admin: Browser) -> None:
    shared = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}})
    await publish(server.client, "n1", shared)
    for number, name in enumerate(("first", "second")):
        share = {"shareID": f"a1b2c3d4-0000-0000-0000-00000000000{number}", "consumedCapacity": {"bandwidth": "4G"}}
        await allocate(server.client, name, "n1", "nic", **share)
    async with admin.page() as page:
        await page.wait(lambda: len((page.row("devices", "nic") or {})["claims"]) == 2)
        await free(server, "first")
        await page.wait(lambda: len((page.row("devices", "nic") or {})["claims"]) == 1)
        nic, claim = page.row("devices", "nic"), page.row("claims", "second")
        assert nic is not None
        assert claim is not None
        assert (nic["claims"], nic["used"]) == ([claim["id"]], 0.4)
        await free(server, "second")
        await page.wait(lambda: page.state("nic") == "free")


async def free(server: Served, name: str) -> None:
    nothing = {"status": {"allocation": None, "reservedFor": None}}
    await server.client.patch(ResourceClaim, name, nothing, "default", subresource="status")


def not_ready(name: str) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Overheated",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    told = [{"driver": DRIVER, "pool": "n1", "device": name, "conditions": [condition]}]
    return {"status": {"devices": told}}


async def test_reports_about_two_devices_do_not_replace_each_other(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    for number in range(2):
        await allocate(server.client, f"c{number}", "n1", f"gpu-{number}")
    async with admin.page() as page:
        for number in range(2):
            told = not_ready(f"gpu-{number}")
            await server.client.patch(ResourceClaim, f"c{number}", told, "default", subresource="status")
        await page.wait(lambda: (page.row("drivers", DRIVER) or {})["unhealthy"] == 2)
        await server.client.patch(ResourceClaim, "c0", {"status": {"devices": None}}, "default", subresource="status")
        await page.wait(lambda: page.state("gpu-0") == "reserved")
        await page.wait(lambda: (page.row("drivers", DRIVER) or {})["unhealthy"] == 1)
        assert page.state("gpu-1") == "unhealthy"


async def test_a_rule_that_changes_leaves_the_devices_that_it_meant_before(server: Served, admin: Browser) -> None:
    for node in ("n1", "n2"):
        await publish(server.client, node, device(f"gpu-{node}"))
    spec = {"deviceSelector": {"driver": DRIVER, "pool": "n1"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    await server.client.create(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})
    async with admin.page() as page:
        await page.wait(lambda: page.state("gpu-n1") == "tainted")
        assert page.state("gpu-n2") == "free"
        await server.client.patch(DeviceTaintRule, "r", {"spec": {"deviceSelector": {"pool": "n2"}}})
        await page.wait(lambda: page.state("gpu-n2") == "tainted")
        await page.wait(lambda: page.state("gpu-n1") == "free")


async def test_a_pool_that_shrinks_loses_its_devices_and_its_driver_the_pool(server: Served, admin: Browser) -> None:
    for node in ("n1", "n2"):
        await publish(server.client, node, device(f"gpu-{node}"), device(f"spare-{node}"))
    async with admin.page() as page:
        await page.wait(lambda: (page.row("drivers", DRIVER) or {})["devices"] == 4)
        assert (page.row("drivers", DRIVER) or {})["pools"] == 2
        await server.client.patch(ResourceSlice, "n1-slice", {"spec": {"devices": [device("gpu-n1")]}})
        await page.wait(lambda: page.row("devices", "spare-n1") is None)
        assert page.state("spare-n2") == "free"
        await server.client.delete(ResourceSlice, "n2-slice")
        await page.wait(lambda: (page.row("drivers", DRIVER) or {})["pools"] == 1)
        assert page.row("devices", "gpu-n2") is None
