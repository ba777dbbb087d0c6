"""Questions of a page: selectors typed live, why a pod waits, what would happen, what still fits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import Any

import msgspec
import pytest

from dray.api.types.core import Event, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.wire import Tree
from dray.inspect.snapshot import Snapshot
from dray.questions.occupancy import device_rows, pool_rows
from tests import objects
from tests.waiting import eventually
from tests.web.serving import CLASS, DRIVER, Browser, Mirror, Served, allocate, device, publish, slice_tree

MODEL = f'device.attributes["{DRIVER}"].model'


def _names(page: Mirror, ranges: list[list[int]]) -> set[str]:
    numbers = [number for first, count in ranges for number in range(first, first + count)]
    return {page.strings[page.tables["devices"][number]["name"]] for number in numbers}


async def _hardware(server: Served) -> None:
    models = ({"model": {"string": "h100"}}, {"model": {"string": "a100"}}, {})
    devices = [device(f"gpu-{number}", attributes=of) for number, of in enumerate(models)]
    await publish(server.client, "n1", *devices)


# match


async def test_an_expression_says_which_devices_match_and_where_the_others_fail(server: Served, admin: Browser) -> None:
    await _hardware(server)
    async with admin.page() as page:
        expression = f'device.driver == "{DRIVER}" && {MODEL} == "h100"'
        found = await admin.ask("match", expression=expression)
        assert _names(page, found["matched"]) == {"gpu-0"}
        [failed] = found["failed"]
        assert expression[failed["from"] : failed["to"]] == failed["part"] == f'{MODEL} == "h100"'
        assert _names(page, failed["devices"]) == {"gpu-1"}
        [error] = found["errors"]
        assert _names(page, error["devices"]) == {"gpu-2"}
        assert (found["count"], found["of"], found["complete"]) == (1, 3, True)


async def test_a_class_narrows_what_is_matched(server: Served, admin: Browser) -> None:
    await _hardware(server)
    async with admin.page():
        assert (await admin.ask("match", **{"class": CLASS}))["count"] == 3
        assert await admin.refused("match", **{"class": "absent"}) == (404, "NotFound", "class")


async def test_the_devices_of_each_class_are_told_at_once(server: Served, admin: Browser) -> None:
    await _hardware(server)
    selector = {"cel": {"expression": f'"{DRIVER}" in device.attributes && has({MODEL}) && {MODEL} == "h100"'}}
    fast = msgspec.convert({"metadata": {"name": "fast"}, "spec": {"selectors": [selector]}}, DeviceClass)
    await server.client.create(DeviceClass, fast)
    async with admin.page() as page:
        await page.wait(lambda: page.row("classes", "fast"))
        found = await admin.ask("classes")
        devices = {one["class"]: _names(page, one["devices"]) for one in found["classes"]}
        assert devices == {CLASS: {"gpu-0", "gpu-1", "gpu-2"}, "fast": {"gpu-0"}}
        assert found["complete"]


@pytest.mark.parametrize("expression", ["device.", "1 +", "device.attributes[", "'a'", "x" * 20_000])
async def test_an_expression_that_is_not_finished_says_what_is_wrong(admin: Browser, expression: str) -> None:
    async with admin.page():
        found = await admin.ask("match", expression=expression)
        assert found["problem"]


# why


async def test_why_says_at_which_step_each_device_drops_out(server: Served, admin: Browser) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    devices = [device(name) for name in ("taken", "free")] + [device("tainted", taints=[taint])]
    await publish(server.client, "n1", *devices, device("other", attributes={"model": {"string": "h100"}}))
    await allocate(server.client, "holder", "n1", "taken")
    claim = objects.claim("wanted", device_class=CLASS)
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    exactly |= {"count": 2, "selectors": [{"cel": {"expression": f'{MODEL} == "a100"'}}]}
    await server.client.create(ResourceClaim, claim, namespace="default")
    uses = [{"name": "gpu", "resourceClaimName": "wanted"}]
    await server.client.create(Pod, objects.pod("greedy", resourceClaims=uses), namespace="default")
    async with admin.page() as page:
        why = await admin.ask("why", namespace="default", name="greedy")
        assert why["waits"] is True
        [request] = why["requests"]
        assert (request["claim"], request["needed"]) == ("default/wanted", 2)
        dropped = {step["code"]: _names(page, step["dropped"]) for step in request["steps"]}
        assert dropped == {
            "published": set(),
            "class": set(),
            "selector": {"other"},
            "tolerated": {"tainted"},
            "free": {"taken"},
            "counters": set(),
            "constraint": set(),
        }
        assert [step["left"] for step in request["steps"]] == [4, 4, 3, 2, 1, 1, 1]
        assert why["holders"][0]["claim"] == "default/holder"
        assert why["nodes"]["total"] == 1
        tried = await admin.ask("try", pod={"namespace": "default", "name": "greedy"}, change=why["change"])
        assert (tried["fits"], tried["pods"][0]["node"]) == (True, "n1"), "what is suggested helps"
        assert (await server.client.get(Pod, "greedy", "default")).spec.nodeName == "", "and was only tried"


async def test_why_of_a_pod_that_does_not_wait_or_exist(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    await server.client.create(Pod, objects.pod("plain", node="n1"), namespace="default")
    async with admin.page():
        assert await admin.refused("why", namespace="default", name="absent") == (404, "NotFound", "name")
        why = await admin.ask("why", namespace="default", name="plain")
        assert (why["requests"], why["change"]) == ([], None)


# try


MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: more}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""


async def test_trying_a_manifest_says_where_it_goes_and_how_many_more_fit(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"), device("gpu-2"))
    await allocate(server.client, "holder", "n1", "gpu-0")
    async with admin.page() as page:
        found = await admin.ask("try", manifest=MANIFEST, howMany=True)
        assert found["fits"] is True
        assert found["pods"][0]["devices"][0]["device"] == f"{DRIVER}/n1/gpu-1"
        assert found["howMany"]["copies"] == 2
        more = await admin.ask("try", manifest=MANIFEST, howMany=True, addNodes={"like": "n1", "count": 2})
        assert more["howMany"]["copies"] == 8
        assert page.row("claims", "more") is None
        assert not [one for one in (await server.client.list(ResourceClaim)).items if one.metadata.name == "more"]


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"manifest": ""}, "manifest"),
        ({"manifest": "a: b"}, "manifest"),
        ({"manifest": "{"}, "manifest"),
        ({"manifest": "- 1"}, "manifest"),
        ({"manifest": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}"}, "manifest"),
        ({"manifest": MANIFEST, "atMost": 0}, "atMost"),
        ({"manifest": MANIFEST, "atMost": "many"}, "atMost"),
        ({"drain": ["absent"]}, "drain"),
        ({"manifest": MANIFEST, "addNodes": {"like": "absent"}}, "addNodes"),
        ({"manifest": 1}, "manifest"),
        ({"pod": {"name": "p"}}, "change"),
        ({"pod": {"name": "p"}, "change": {"changes": [{"verb": "explode"}]}}, "change"),
    ],
)
async def test_a_trial_that_makes_no_sense_names_the_field(admin: Browser, question: Any, field: str) -> None:
    async with admin.page():
        assert await admin.refused("try", **question) == (400, "BadRequest", field)


# What is read for a question


async def test_a_question_reads_what_it_needs_and_no_more(
    server: Served, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    async with admin.page() as page:
        read: list[tuple[type, str]] = []
        client = server.picture().client

        async def listing(type_: type, *where: str, fields: str = "") -> Any:
            read.append((type_, fields))
            return await type(client).list(client, type_, *where, fields=fields)

        monkeypatch.setattr(client, "list", listing)
        gpu = page.row("devices", "gpu-0")
        assert gpu is not None
        await admin.ask("device", id=gpu["id"])
        await admin.ask("match", expression="true")
        await admin.ask("fits")
        assert read == []
        await server.client.create(Pod, objects.pod("plain", node="n1"), namespace="default")
        await eventually(lambda: server.picture().following.get(Pod, "default", "plain"))
        await admin.ask("why", namespace="default", name="plain")
        assert [fields for type_, fields in read if type_ is Event] == [
            "involvedObject.kind=Pod,involvedObject.name=plain"
        ]


# fits


async def test_what_still_fits_is_counted_by_class_and_node(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    await publish(server.client, "n2", device("gpu-0"))
    await allocate(server.client, "holder", "n1", "gpu-0")
    async with admin.page():
        [found] = (await admin.ask("fits"))["classes"]
        assert found == {
            "class": CLASS,
            "total": 3,
            "free": 2,
            "shared": 0,
            "node": {"name": "n1", "count": 1},
            "cluster": 2,
            "spread": [[1, 2]],
            "exact": True,
        }


async def test_the_map_what_fits_and_top_count_the_same_devices_as_free(server: Served, admin: Browser) -> None:
    def part(name: str, amount: str, **more: Any) -> Tree:
        drawn = [{"counterSet": "g", "counters": {"memory": {"value": amount}}}]
        return device(name, consumesCounters=drawn, **more)

    counters = [{"name": "g", "counters": {"memory": {"value": "40Gi"}}}]
    await server.client.create(ResourceSlice, slice_tree("n1", name="counters", slices=2, sharedCounters=counters))
    taint = [{"key": "fan", "effect": "NoSchedule"}]
    parts = part("whole", "40Gi"), part("half", "20Gi"), part("rest", "20Gi"), part("tiny", "1Gi", taints=taint)
    await publish(server.client, "n1", *parts, slices=2)
    await publish(server.client, "n2", *(device(name) for name in ("a", "b", "hot")))
    nic = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}})
    await publish(server.client, "n3", nic, device("lost"))
    await publish(server.client, "n4", device("gpu-0"), slices=2)  # its other slice is missing
    await allocate(server.client, "mine", "n1", "half")
    share = {"shareID": "a1b2c3d4-0000-0000-0000-000000000001", "consumedCapacity": {"bandwidth": "4G"}}
    await allocate(server.client, "some", "n3", "nic", **share)
    async with admin.page() as page:
        await page.wait(lambda: page.state("nic") == "shared" and page.state("half") == "reserved")
        [fits] = (await admin.ask("fits"))["classes"]
        states = Counter(page.states())
        assert (fits["free"], fits["shared"], fits["total"]) == (5, 1, sum(states.values()))
        assert (states["free"], states["shared"]) == (5, 1)
        assert fits["cluster"] == 6
        types = (ResourceSlice, ResourceClaim)
        objects_ = [one for type_ in types for one in (await server.client.list(type_)).items]
        snapshot = Snapshot.of(*objects_)
        assert Counter(row.state for row in device_rows(snapshot))["free"] == 5
        assert sum(row.available for row in pool_rows(snapshot)) == 5


# device, object


async def test_a_device_and_an_object_are_shown_whole(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0", capacity={"memory": {"value": "80Gi"}}))
    await allocate(server.client, "holder", "n1", "gpu-0")
    async with admin.page() as page:
        gpu = page.row("devices", "gpu-0")
        assert gpu is not None
        known = await admin.ask("device", id=gpu["id"])
        assert (known["driver"], known["pool"], known["node"], known["slice"]) == (DRIVER, "n1", "n1", "n1-slice")
        assert known["attributes"] == {"model": {"type": "string", "value": "a100"}}
        assert known["capacity"] == {"memory": {"value": "80Gi", "used": None}}
        assert known["classes"] == [CLASS]
        assert await admin.refused("device", id=999) == (404, "NotFound", "id")
        found = await admin.ask("object", kind="ResourceClaim", namespace="default", name="holder")
        assert found["object"]["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        assert "managedFields" not in found["object"]["metadata"]
        assert await admin.refused("object", kind="Secret", namespace="default", name="x") == (404, "NotFound", "kind")
        assert (await admin.refused("object", kind="Pod", namespace="default", name="x"))[:2] == (404, "NotFound")


async def test_questions_with_unknown_parts_are_refused(admin: Browser) -> None:
    async with admin.page():
        status, code, _ = await admin.refused("match", expresion="true")
        assert (status, code) == (400, "BadRequest")


async def test_an_answer_is_found_again_when_the_process_that_answers_is_killed(server: Served, admin: Browser) -> None:
    await _hardware(server)
    async with admin.page():
        assert (await admin.ask("match", expression="true"))["count"] == 3
        dashboard = server.mounted._dashboard
        assert dashboard is not None
        analyst = dashboard._analyst
        process = analyst._background.pid
        assert process is not None
        os.kill(process, signal.SIGKILL)
        await eventually(lambda: analyst._background.pid != process)
        assert (await admin.ask("match", expression="true"))["count"] == 3


async def test_too_many_questions_at_once_are_refused(server: Served, admin: Browser) -> None:
    await _hardware(server)
    async with admin.page():
        answers = await asyncio.gather(*(admin.post("api/ask/fits", {}) for _ in range(12)))
        assert {status for status, _ in answers} == {200, 429}
        assert (await admin.ask("fits"))["classes"]
