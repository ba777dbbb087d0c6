"""Which versions a server shows, and that objects stay the same whichever versions are served."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import ConfigMap, Namespace
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import InProcess
from dray.client.config import Config
from dray.client.http import Http
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from tests.apiserver.asking import HttpAsker, claim, serving
from tests.controllers.conftest import gone
from tests.waiting import eventually, within

DRA = "/apis/resource.k8s.io"
GATES = FeatureGates.parse("GenericWorkload=true,DRAResourcePoolStatus=true,WorkloadPodGroupResourceClaimTemplate=true")
OLD = "resource.k8s.io/v1beta1"


def old_claim(name: str, **metadata: Any) -> dict[str, Any]:
    request = {"name": "r", "deviceClassName": "gpu", "count": 2}
    return {
        "apiVersion": OLD,
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [request]}},
    }


async def versions_of(http: HttpAsker, group: str) -> list[str]:
    """The versions of a group by all documents that list them; they must agree."""
    code, classic = await http("GET", f"/apis/{group}")
    found = [one["version"] for one in classic["versions"]] if code == 200 else []
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, aggregated = await http("GET", "/apis", accept=accept)
    groups = {one["metadata"]["name"]: [v["version"] for v in one["versions"]] for one in aggregated["items"]}
    assert groups.get(group, []) == found
    _, index = await http("GET", "/openapi/v3")
    assert {path.rpartition("/")[2] for path in index["paths"] if path.startswith(f"apis/{group}/")} == {*found}
    _, swagger = await http("GET", "/openapi/v2")
    assert {path.split("/")[3] for path in swagger["paths"] if path.startswith(f"/apis/{group}/v")} == {*found}
    return found


async def test_only_v1_is_shown_and_answered_by_default(http: HttpAsker) -> None:
    assert await versions_of(http, "resource.k8s.io") == ["v1"]
    assert await versions_of(http, "scheduling.k8s.io") == ["v1"]
    for version in ("v1beta1", "v1beta2", "v1alpha3"):
        for path in ("", "/resourceclaims", "/namespaces/default/resourceclaims/c"):
            code, text = await http.text(f"{DRA}/{version}{path}")
            assert code == 404, text
    assert (await http("POST", f"{DRA}/v1beta1/namespaces/default/resourceclaims", old_claim("c")))[0] == 404
    code, _ = await http("POST", f"{DRA}/v1/namespaces/default/resourceclaims", old_claim("c"))
    assert code == 400


@pytest.mark.parametrize("alone", [False, True])
async def test_kinds_without_a_stable_version(keys: Keys, alone: bool) -> None:
    async with serving(keys, gates=GATES, gates_enable_apis=not alone) as http:
        expected = ["v1"] if alone else ["v1", "v1alpha3", "v1alpha1"]
        assert await versions_of(http, "resource.k8s.io") == expected
        expected = ["v1"] if alone else ["v1", "v1beta1", "v1alpha3", "v1alpha1"]
        assert await versions_of(http, "scheduling.k8s.io") == expected
        code, _ = await http.text(f"{DRA}/v1alpha3/resourcepoolstatusrequests")
        assert code == (404 if alone else 200)
        assert (await http.text(f"{DRA}/v1alpha3/devicetaintrules"))[0] == 404


async def test_what_was_written_in_an_old_version_is_there_when_that_version_is_not_served(keys: Keys) -> None:
    """Read, listed, watched, patched and applied in v1, with managed fields that name the old version."""
    async with serving(keys, secure=False, runtime_config={"api/all": True}) as old:
        path = f"{DRA}/v1beta1/namespaces/default/resourceclaims"
        before = str(old.running.api.storage.cache.revision)
        assert (await old("POST", f"{path}?fieldManager=m", old_claim("c")))[0] == 201
        today = Running(old.running._log, old.running.api.storage.cache, ServerSettings(authenticate=False))
        sock = listen("127.0.0.1", 0)
        server = HttpServer(today.http, sock, None)
        await server.start()
        async with Http(Config(f"http://127.0.0.1:{sock.getsockname()[1]}")) as client:
            found = await client.get(ResourceClaim, "c", "default")
            assert found.apiVersion == "resource.k8s.io/v1"
            assert found.metadata.managedFields[0].apiVersion == OLD
            exactly = found.spec.devices.requests[0].exactly
            assert exactly is not None
            assert (exactly.deviceClassName, exactly.count) == ("gpu", 2)
            assert [one.metadata.name for one in (await client.list(ResourceClaim)).items] == ["c"]
            async with aclosing(client.watch(ResourceClaim, resource_version=before)) as watch:
                assert (await anext(watch))[-1].object == found
            patched = await client.patch(ResourceClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "default")
            assert patched.metadata.labels == {"a": "b"}
            assert patched.spec == found.spec
            await client.delete(ResourceClaim, "c", "default")
        today.drain()
        await server.stop()
        await today.api.close()


async def test_parts_work_over_http_without_optional_kinds_and_report_each_once(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """Gates are on and no version of PodGroup, Workload and ResourcePoolStatusRequest is enabled: `dray apiserver`.

    Claims whose owner is named in a version that is not served are collected, and namespaces with claims are emptied.
    """
    plugins = ("ServiceAccount",)
    settings: dict[str, Any] = {"gates": GATES, "gates_enable_apis": False, "disabled_plugins": plugins}
    async with serving(keys, secure=False, **settings) as http, Http(Config(http.url)) as client:
        manager, scheduler = ControllerManager(client, gates=GATES), Scheduler(client, GATES)
        running = [asyncio.create_task(manager.run()), asyncio.create_task(scheduler.run())]
        await within(manager.ready.wait())
        await client.create(Namespace, {"metadata": {"name": "ns"}})
        owner = await client.create(ResourceClaim, claim("owner"), namespace="ns")
        reference = {"apiVersion": OLD, "kind": "ResourceClaim", "name": "owner", "uid": owner.metadata.uid}
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        await client.create(ConfigMap, owned, namespace="ns")
        await client.delete(ResourceClaim, "owner", "ns")
        await gone(client, ConfigMap, "owned", "ns")
        await client.create(ResourceClaim, claim("left"), namespace="ns")
        await client.delete(Namespace, "ns")
        await gone(client, Namespace, "ns")
        for task in running:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    said = [one.getMessage() for one in caplog.records if one.levelname in ("WARNING", "ERROR")]
    missing = ("compositepodgroups.scheduling", "podgroups.scheduling", "workloads.scheduling", "resourcepoolstatus")
    for text in said:
        assert text.startswith(missing), text
        assert "this server has no such resource" in text
        assert said.count(text) <= 2  # once by the controllers and once by the scheduler


async def test_objects_of_a_kind_that_is_not_served_any_more_go_with_their_namespace(keys: Keys) -> None:
    """In one process they are reached in any case, so nothing stays behind in the store."""
    async with serving(keys, secure=False, gates=GATES, runtime_config={"scheduling.k8s.io/v1alpha1": False}) as http:
        groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups"
        await http("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
        spec = {"schedulingPolicy": {"basic": {}}}
        code, made = await http("POST", groups, {"metadata": {"name": "g"}, "spec": spec})
        assert code == 201, made
        off = {"api/beta": False, "api/alpha": False}
        settings = ServerSettings(authenticate=False, gates=GATES, runtime_config=off)
        later = Running(http.running._log, http.running.api.storage.cache, settings)
        manager = ControllerManager(InProcess(later.api, ADMIN), gates=GATES)
        running = asyncio.create_task(manager.run())
        await within(manager.ready.wait())
        await http("DELETE", "/api/v1/namespaces/ns")

        async def is_gone() -> bool:
            return (await http("GET", "/api/v1/namespaces/ns"))[0] == 404

        await eventually(is_gone)
        assert (await http("GET", groups))[1]["items"] == []
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await later.api.close()
