"""What a user may not read is not shown, and said to be hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import Namespace, Pod
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate, ResourcePoolStatusRequest
from dray.api.users import ADMIN
from dray.client import InProcess
from dray.controllers import ControllerManager
from tests import objects
from tests.web.serving import CLASS, DRIVER, Browser, Served, allocate, browser, device, publish

READ = ["get", "list", "watch"]
_RBAC = "rbac.authorization.k8s.io"
_RESOURCE = "resource.k8s.io"


async def _allow(
    server: Served, *resources: str, group: str = _RESOURCE, verbs: list[str] = READ, namespace: str = ""
) -> None:
    rules = [{"apiGroups": [group], "resources": list(resources), "verbs": verbs}]
    name = f"role-{'-'.join(resources)}"
    subjects = [{"kind": "User", "apiGroup": _RBAC, "name": "jane"}]
    kind = "Role" if namespace else "ClusterRole"
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
    role, binding = (Role, RoleBinding) if namespace else (ClusterRole, ClusterRoleBinding)
    where = {"namespace": namespace} if namespace else {}
    await server.client.create(role, {"metadata": {"name": name}, "rules": rules}, **where)
    await server.client.create(
        binding, {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}, **where
    )


@pytest.fixture
async def jane(server: Served, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """A user without rights of her own."""
    monkeypatch.setattr("dray.web.picture._RIGHTS_SECONDS", 0.1)
    async with browser(server.origin) as window:
        await window.sign_in(token="jane-token", namespace="default")
        yield window


async def test_who_may_read_nothing_sees_nothing_and_is_told(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await allocate(server.client, "secret-claim", "n1", "gpu-0")
    async with jane.page() as page:
        assert set(page.hello["resources"].values()) == {"hidden"}
        assert not any(page.tables.values())
        assert "secret-claim" not in str(page.strings)
        assert (await jane.refused("why", namespace="default", name="p"))[0] == 404
        assert (await jane.refused("object", kind="ResourceClaim", namespace="default", name="secret-claim"))[0] == 403
        assert (await jane.ask("fits"))["hidden"] is True
        assert (await jane.ask("match", expression="true"))["of"] == 0
        await page.wait(lambda: page.samples)
        assert page.samples[-1]["devices"] is None


async def test_who_may_not_read_all_claims_is_not_told_that_devices_are_free(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    await server.client.create(Namespace, {"metadata": {"name": "other"}})
    await allocate(server.client, "mine", "n1", "gpu-0")
    await _allow(server, "resourceslices")
    await _allow(server, "resourceclaims", namespace="default")
    async with jane.page() as page:
        assert page.hello["resources"]["resourceclaims"] == "namespace"
        assert (page.state("gpu-0"), page.state("gpu-1")) == ("reserved", "unknown")
        await server.client.create(ResourceClaim, objects.claim("theirs"), namespace="other")
        await server.client.create(ResourceClaim, objects.claim("ours"), namespace="default")
        await page.wait(lambda: page.row("claims", "ours"))
        assert page.row("claims", "theirs") is None


async def test_who_may_read_one_namespace_can_try_what_is_in_it(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    spec = {"spec": objects.claim("c", device_class=CLASS)["spec"]}
    template = {"metadata": {"name": "one"}, "spec": spec}
    await server.client.create(ResourceClaimTemplate, template, namespace="default")
    await _allow(server, "resourceslices", "deviceclasses")
    await _allow(server, "nodes", group="")
    await _allow(server, "resourceclaims", "resourceclaimtemplates", namespace="default")
    uses = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pod = objects.pod("p", resourceClaims=uses)
    async with jane.page():
        found = await jane.ask("try", manifest=json.dumps(pod), namespace="default")
        assert found["pods"][0]["node"] == "n1", found


async def test_who_sees_one_namespace_is_told_what_the_scheduler_says_instead_of_a_guess(
    server: Served, jane: Browser
) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await server.client.create(Namespace, {"metadata": {"name": "other"}})
    await allocate(server.client, "theirs", "n1", "gpu-0", namespace="other")
    await server.client.create(ResourceClaim, objects.claim("wanted", device_class=CLASS), namespace="default")
    uses = [{"name": "gpu", "resourceClaimName": "wanted"}]
    await server.client.create(Pod, objects.pod("p", resourceClaims=uses), namespace="default")
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    await server.client.patch(Pod, "p", {"status": {"conditions": [said]}}, namespace="default", subresource="status")
    await _allow(server, "resourceslices", "deviceclasses")
    await _allow(server, "nodes", group="")
    await _allow(server, "resourceclaims", namespace="default")
    await _allow(server, "pods", group="", namespace="default")
    more = objects.claim("more", device_class=CLASS)
    async with jane.page() as page:
        why = await jane.ask("why", namespace="default", name="p")
        assert why["cause"]["code"] == "SchedulerSays"
        assert said["message"] in why["cause"]["text"]
        assert (why["hidden"], why["change"]) == (True, None)
        await page.wait(lambda: [one["code"] for one in page.tables.get("causes", {}).values()] == ["SchedulerSays"])
        assert (await jane.ask("try", manifest=json.dumps(more)))["hidden"] is True
        assert (await jane.ask("fits"))["hidden"] is True


async def test_rights_that_come_are_followed_at_once(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    async with jane.page() as page:
        await _allow(server, "resourceslices")
        await page.wait(lambda: page.rights and page.rights["resourceslices"] == "all")
        await page.wait(lambda: page.state("gpu-0") == "unknown")
        await _allow(server, "resourceclaims")
        await page.wait(lambda: page.state("gpu-0") == "free")


async def test_rights_that_go_take_rows_and_history_with_them(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await _allow(server, "resourceslices")
    await _allow(server, "resourceclaims")
    async with jane.page() as page:
        await allocate(server.client, "secret-claim", "n1", "gpu-0")
        await page.wait(lambda: page.state("gpu-0") == "reserved")
        before = page.samples[-1]["at"] if page.samples else page.hello["now"]
        await server.client.delete(ClusterRoleBinding, "role-resourceclaims")
        await page.wait(lambda: page.bye == "restarted")
    async with jane.page() as page:
        assert page.state("gpu-0") == "unknown"
        assert page.row("claims", "secret-claim") is None
        assert page.hello["resources"]["resourceclaims"] == "hidden"
        assert await jane.refused("past", at=before) == (400, "BadRequest", "at")
        _, series = await jane.get("api/series")
        assert not any(series["columns"]["allocated"])


async def test_who_may_not_read_claims_sees_counts_of_pools(server: Served, jane: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    await allocate(server.client, "mine", "n1", "gpu-0")
    await _allow(server, "resourceslices")
    await _allow(server, "resourcepoolstatusrequests", verbs=["create", "delete", *READ])
    gates = FeatureGates.parse("DRAResourcePoolStatus=true")
    client = InProcess(server.running.api, ADMIN)
    counting = ControllerManager(client, gates=gates, controllers="resourcepoolstatusrequest")
    manager = asyncio.ensure_future(counting.run())
    try:
        async with jane.page() as page:
            await page.wait(lambda: (page.row("pools", "n1") or {})["counts"])
            pool = page.row("pools", "n1")
            assert pool is not None
            assert pool["counts"] == [2, 1, 1, 0]
            driver = page.row("drivers", DRIVER)
            assert driver is not None
        left = await server.client.list(ResourcePoolStatusRequest)
        assert not left.items, "a request was left behind"
    finally:
        manager.cancel()
        await asyncio.gather(manager, return_exceptions=True)


async def test_what_is_measured_of_drivers_is_for_who_may_read_metrics(
    server: Served, jane: Browser, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {DRIVER: [{"method": "NodePrepareResources", "calls": 1, "errors": 0, "p50": 0.1, "p99": 0.1}]}
    monkeypatch.setattr("dray.assembly.access.measured_operations", lambda: measured)
    await publish(server.client, "n1", device("gpu-0"))
    await _allow(server, "resourceslices")
    async with admin.page() as his, jane.page() as hers:
        await his.wait(lambda: (his.row("drivers", DRIVER) or {})["operations"])
        await hers.wait(lambda: len(hers.samples) > 1)
        driver = hers.row("drivers", DRIVER)
        assert driver is not None
        assert driver["operations"] is None


async def test_two_users_have_pictures_of_their_own(server: Served, jane: Browser, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    async with jane.page() as hers, admin.page() as his:
        assert his.state("gpu-0") == "free"
        assert not any(hers.tables.values())
        assert his.hello["epoch"] != hers.hello["epoch"]
