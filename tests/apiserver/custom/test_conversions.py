"""Conversion webhooks on a real server: every way to read and write in any version, and webhooks that hang or lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from dray.api.wire import Tree
from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import hooking
from tests.apiserver.asking import HttpAsker, created, serving
from tests.apiserver.custom.converting import DEFINITIONS, V1, V2, Converter, convert, define, screen
from tests.waiting import eventually, within

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def hook_keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("hook"), ("convert.default.svc",))


@pytest.fixture
async def hook(hook_keys: Keys) -> AsyncIterator[Converter]:
    async with hooking(hook_keys, Converter) as one:
        yield one
        one.gate.set()


@pytest.fixture
async def admin(keys: Keys, hook: Converter) -> AsyncIterator[HttpAsker]:
    async with serving(keys, limits=Limits(conversion_seconds=1.0)) as asker:
        await define(asker, {"url": hook.url, "caBundle": hook.authority})
        yield asker


def stored(admin: HttpAsker, name: str = "s") -> Tree:
    version = admin.running.api.storage.cache.get(f"screens.example.com/default/{name}")
    assert version is not None
    assert version.value is not None
    tree: Tree = msgspec.json.decode(version.value)
    return tree


async def test_an_object_is_stored_in_the_stored_version_and_read_in_any(admin: HttpAsker) -> None:
    body = await created(admin, V2, screen(width=3, height=4))
    assert (body["apiVersion"], body["spec"]) == ("example.com/v2", {"width": 3, "height": 4})
    assert (stored(admin)["apiVersion"], stored(admin)["spec"]) == ("example.com/v1", {"size": "3x4"})
    _, first = await admin("GET", f"{V1}/s")
    _, second = await admin("GET", f"{V2}/s")
    assert (first["spec"], second["spec"]) == ({"size": "3x4"}, {"width": 3, "height": 4})
    same = ("uid", "resourceVersion", "creationTimestamp", "generation")
    assert [first["metadata"][name] for name in same] == [second["metadata"][name] for name in same]


async def test_a_list_is_converted_in_portions(admin: HttpAsker, hook: Converter) -> None:
    for number in range(120):
        await created(admin, V1, screen(f"s{number:03}", "v1", size=f"{number}x1"))
    hook.requests.clear()
    code, body = await admin("GET", V2)
    assert (code, [item["spec"]["width"] for item in body["items"]]) == (200, list(range(120)))
    assert {item["apiVersion"] for item in body["items"]} == {"example.com/v2"}
    assert [len(request["objects"]) for request in hook.requests] == [100, 20]
    code, body = await admin("GET", f"{V2}?limit=2")
    assert (code, len(body["items"]), len(hook.requests)) == (200, 2, 2)  # what was converted is kept


async def test_a_table_has_the_columns_of_its_version(admin: HttpAsker) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    _, table = await admin("GET", V2, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "V2"]
    assert table["rows"][0]["cells"] == ["s", "3"]


async def test_a_watch_tells_in_its_version(admin: HttpAsker) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    async with admin.send("GET", f"{V2}?watch=true&timeoutSeconds=60") as response:
        lines = response.content
        first = json.loads(await within(lines.readline()))
        assert (first["type"], first["object"]["spec"]) == ("ADDED", {"width": 3, "height": 4})
        await admin("PATCH", f"{V1}/s", {"spec": {"size": "5x6"}}, content_type=MERGE)
        second = json.loads(await within(lines.readline()))
        assert (second["type"], second["object"]["spec"]) == ("MODIFIED", {"width": 5, "height": 6})
        await admin("DELETE", f"{V1}/s")
        third = json.loads(await within(lines.readline()))
        assert (third["type"], third["object"]["apiVersion"]) == ("DELETED", "example.com/v2")


async def test_many_watchers_ask_the_webhook_once(admin: HttpAsker, hook: Converter) -> None:
    async def first_event() -> Tree:
        async with admin.send("GET", f"{V2}?watch=true&timeoutSeconds=60&allowWatchBookmarks=true") as response:
            watching.release()
            event: Tree = json.loads(await within(response.content.readline()))
            return event

    watching = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(first_event()) for _ in range(20)]
    for _ in tasks:
        await within(watching.acquire())
    hook.requests.clear()
    await created(admin, V1, screen("s", "v1", size="3x4"))
    events = await asyncio.gather(*tasks)
    assert {event["object"]["spec"]["width"] for event in events} == {3}
    assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (MERGE, {"spec": {"height": 9}}),
        (JSON_PATCH, [{"op": "replace", "path": "/spec/height", "value": 9}]),
        (
            APPLY,
            {
                "apiVersion": "example.com/v2",
                "kind": "Screen",
                "metadata": {"name": "s"},
                "spec": {"width": 3, "height": 9},
            },
        ),
    ],
)
async def test_patches_are_made_in_the_version_of_their_client(admin: HttpAsker, media: str, patch: Any) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4", note="n"))
    query = "fieldManager=m" + ("&force=true" if media == APPLY else "")
    code, body = await admin("PATCH", f"{V2}/s?{query}", json.dumps(patch), content_type=media)
    assert (code, body["spec"]) == (200, {"width": 3, "height": 9, "note": "n"})
    assert stored(admin)["spec"] == {"size": "3x9", "note": "n"}
    assert body["metadata"]["generation"] == 2


async def test_appliers_of_different_versions_know_of_each_other(admin: HttpAsker) -> None:
    async def apply(path: str, manager: str, tree: Tree) -> tuple[int, Tree]:
        return await admin("PATCH", f"{path}/s?fieldManager={manager}", json.dumps(tree), content_type=APPLY)

    assert (await apply(V1, "one", screen("s", "v1", size="3x4")))[0] == 201
    code, body = await apply(V2, "two", screen("s", "v2", width=3, height=5))
    assert (code, body["reason"]) == (409, "Conflict")
    assert "spec.size" in body["message"]
    code, body = await apply(V2, "two", screen("s", "v2", width=3, height=4, note="n"))
    assert (code, body["spec"]) == (200, {"width": 3, "height": 4, "note": "n"})
    code, body = await apply(V1, "one", screen("s", "v1", size="3x4"))
    assert (code, body["spec"]) == (200, {"size": "3x4", "note": "n"})
    code, body = await apply(V2, "two", screen("s", "v2", width=3, height=4))
    assert (code, body["spec"]) == (200, {"width": 3, "height": 4})


async def test_updates_status_and_scale_work_in_any_version(admin: HttpAsker) -> None:
    body = await created(admin, V2, screen(width=3, height=4, replicas=1))
    code, body = await admin("PUT", f"{V2}/s", {**body, "spec": {"width": 5, "height": 4, "replicas": 1}})
    assert (code, stored(admin)["spec"]["size"]) == (200, "5x4")
    code, body = await admin("PATCH", f"{V2}/s/status", {"status": {"replicas": 1}}, content_type=MERGE)
    assert (code, body["status"], body["metadata"]["generation"]) == (200, {"replicas": 1}, 2)
    code, scale = await admin("PATCH", f"{V2}/s/scale", {"spec": {"replicas": 7}}, content_type=MERGE)
    assert (code, scale["spec"], scale["status"]["replicas"]) == (200, {"replicas": 7}, 1)
    assert stored(admin)["spec"] == {"size": "5x4", "replicas": 7}


async def test_what_is_written_is_judged_by_the_schema_of_its_version(admin: HttpAsker) -> None:
    code, body = await admin("POST", V2, screen(width=0, height=4))
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.width")
    code, body = await admin("POST", V1, screen("s", "v1", size="large"))
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.size")


async def test_a_write_that_changes_nothing_is_not_written(admin: HttpAsker) -> None:
    body = await created(admin, V2, screen(width=3, height=4))
    code, again = await admin("PATCH", f"{V2}/s", {"spec": {"width": 3}}, content_type=MERGE)
    assert (code, again["metadata"]["resourceVersion"]) == (200, body["metadata"]["resourceVersion"])


async def test_a_dry_run_shows_what_it_would_come_to(admin: HttpAsker) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    assert (await admin("GET", f"{V2}/s"))[1]["spec"]["width"] == 3
    code, body = await admin("PATCH", f"{V2}/s?dryRun=All", {"spec": {"width": 8}}, content_type=MERGE)
    assert (code, body["spec"]["width"], stored(admin)["spec"]["size"]) == (200, 8, "3x4")
    assert (await admin("GET", f"{V2}/s"))[1]["spec"]["width"] == 3


async def test_writers_who_race_lose_nothing(admin: HttpAsker) -> None:
    await created(admin, V1, screen("s", "v1", size="1x1"))
    patches = [{"metadata": {"labels": {f"l{number}": "x"}}} for number in range(6)]
    answers = await asyncio.gather(
        *(admin("PATCH", f"{path}/s", patch, content_type=MERGE) for patch in patches for path in (V1, V2))
    )
    assert {code for code, _ in answers} <= {200, 409}
    won = {label for (code, _), patch in zip(answers, (p for p in patches for _ in range(2)), strict=True) if code == 200 for label in patch["metadata"]["labels"]}  # fmt: skip
    assert won <= stored(admin)["metadata"]["labels"].keys()


async def test_a_definition_that_stores_another_version_reads_what_is_there(admin: HttpAsker) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    _, found = await admin("GET", f"{DEFINITIONS}/screens.example.com")
    for one in found["spec"]["versions"]:
        one["storage"] = one["name"] == "v2"
    assert (await admin("PUT", f"{DEFINITIONS}/screens.example.com", found))[0] == 200
    resource = admin.running.definitions.find

    async def is_noticed() -> bool:
        known = resource("example.com", "screens")
        return known is not None and known.stored == "v2"

    await eventually(is_noticed)
    assert (await admin("GET", f"{V2}/s"))[1]["spec"] == {"width": 3, "height": 4}
    code, _ = await admin("PATCH", f"{V1}/s", {"spec": {"note": "n"}}, content_type=MERGE)
    assert (code, stored(admin)["spec"]) == (200, {"width": 3, "height": 4, "note": "n"})


async def test_labels_come_from_the_webhook_and_all_other_metadata_does_not(admin: HttpAsker, hook: Converter) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))

    def relabel(tree: Tree, wanted: str) -> Tree:
        converted = convert(tree, wanted)
        return {**converted, "metadata": {**tree["metadata"], "labels": {"by": "hook"}, "finalizers": ["a/b"]}}

    hook.convert = relabel
    _, body = await admin("GET", f"{V2}/s")
    assert (body["metadata"]["labels"], body["metadata"].get("finalizers")) == ({"by": "hook"}, None)


def lying(**changes: Any) -> Any:
    def lie(tree: Tree, wanted: str) -> Tree:
        converted = convert(tree, wanted)
        return {**converted, **changes, "metadata": {**tree["metadata"], **changes.get("metadata", {})}}

    return lie


DEEP = '{"x":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    ("lie", "text"),
    [
        (lying(metadata={"name": "other"}), "must have the same name: s != other"),
        (lying(metadata={"uid": "u"}), "must have the same UID"),
        (lying(metadata={"namespace": "kube-system"}), "must have the same namespace"),
        (lying(metadata={"labels": {"a b": "c"}}), "metadata.labels"),
        (lying(metadata={"annotations": {"a": 1}}), "metadata.annotations"),
        (lying(apiVersion="example.com/v1"), "invalid groupVersion (expected example.com/v2, received example.com/v1)"),
        (lying(kind="Pod"), "invalid kind"),
        (lambda tree, wanted: "no", "no object"),
        (lambda tree, wanted: {"apiVersion": wanted, "kind": "Screen"}, "missing metadata"),
        (lying(spec={"note": ["x"] * 200_000}), "returned invalid converted object"),
    ],
)
async def test_a_webhook_that_lies_about_an_object_is_told(
    admin: HttpAsker, hook: Converter, lie: Any, text: str
) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    hook.convert = lie
    for path in (f"{V2}/s", V2):
        code, body = await admin("GET", path)
        assert (code, body["reason"]) == (500, "InternalError")
        assert body["message"].startswith("conversion webhook for example.com/v1, Kind=Screen returned invalid")
        assert text in body["message"]
    code, body = await admin("PATCH", f"{V2}/s", {"spec": {"width": 8}}, content_type=MERGE)
    assert (code, stored(admin)["spec"]) == (500, {"size": "3x4"})
    assert (await admin("GET", f"{V1}/s"))[0] == 200


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (lambda hook, review: hook.converted(review, convertedObjects=[]), "returned 0 objects, expected 1"),
        (lambda hook, review: hook.converted(review, uid="other"), "expected response.uid="),
        (lambda hook, review: hook.converted(review, result={"status": "Failure", "message": "no way"}), "no way"),
        (lambda hook, review: hook.converted(review, result={}), "response.result.status was '', not 'Success'"),
        (lambda hook, review: {**hook.converted(review), "kind": "Pod"}, "expected webhook response of"),
        (lambda hook, review: {**review, "response": None}, "no response provided"),
        (lambda hook, review: "{", "no ConversionReview"),
        (lambda hook, review: DEEP, "failed: "),
        (
            lambda hook, review: json.dumps(hook.converted(review, convertedObjects=["DEEP"])).replace('"DEEP"', DEEP),
            "nested too deeply",
        ),
        (lambda hook, review: " " * (4 << 20), "the answer is larger than"),
    ],
)
async def test_an_answer_that_is_none_is_told(admin: HttpAsker, hook: Converter, reply: Any, text: str) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    hook.reply = lambda review: reply(hook, review)
    code, body = await admin("GET", f"{V2}/s")
    assert code == 500
    assert body["message"].startswith("conversion webhook for example.com/v1, Kind=Screen ")
    assert text in body["message"]


async def test_a_webhook_that_hangs_costs_those_who_need_it_their_time(admin: HttpAsker, hook: Converter) -> None:
    await created(admin, V1, screen("s", "v1", size="3x4"))
    hook.gate.clear()
    async with admin.send("GET", f"{V2}?watch=true&timeoutSeconds=60") as response:
        waiting = [
            asyncio.create_task(admin("GET", f"{V2}/s")),
            asyncio.create_task(admin("POST", V2, screen("t", width=1, height=1))),
            asyncio.create_task(admin("PATCH", f"{V2}/s", {"spec": {"width": 8}}, content_type=MERGE)),
        ]
        code, body = await admin("GET", f"{V1}/s")
        assert (code, body["spec"]) == (200, {"size": "3x4"})
        for code, body in await within(asyncio.gather(*waiting)):
            assert (code, "no answer within" in body["message"]) == (500, True)
        event = json.loads(await within(response.content.readline()))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert stored(admin)["spec"] == {"size": "3x4"}
    assert (await admin("DELETE", f"{DEFINITIONS}/screens.example.com"))[0] == 200

    async def gone() -> bool:
        return (await admin("GET", f"{DEFINITIONS}/screens.example.com"))[0] == 404

    await eventually(gone)  # its objects go with it, whatever the webhook does


async def test_an_object_is_deleted_whatever_its_webhook_does(admin: HttpAsker, hook: Converter) -> None:
    held = screen("held", "v1", size="1x1")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await created(admin, V1, held)
    await created(admin, V1, screen("s", "v1", size="3x4"))
    hook.reply = lambda review: "{"
    code, body = await admin("DELETE", f"{V2}/held")
    assert (code, body["status"]) == (200, "Success")
    assert "deletionTimestamp" in stored(admin, "held")["metadata"]
    code, body = await admin("DELETE", V2)
    assert (code, body["status"]) == (200, "Success")
    _, left = await admin("GET", V1)
    assert [item["metadata"]["name"] for item in left["items"]] == ["held"]


async def test_a_webhook_behind_a_service_is_called(keys: Keys, hook: Converter) -> None:
    async with serving(keys) as admin:
        service = {"namespace": "default", "name": "convert", "path": "/check", "port": 443}
        await define(admin, {"service": service, "caBundle": hook.authority})
        await created(admin, V1, screen("s", "v1", size="3x4"))
        code, body = await admin("GET", f"{V2}/s")
        assert (code, 'service "convert" not found' in body["message"]) == (500, True)
        named = {"metadata": {"name": "convert"}, "spec": {"ports": [{"port": 443, "targetPort": 1}]}}
        await created(admin, "/api/v1/namespaces/default/services", named)
        slice_ = {
            "metadata": {"name": "convert-1", "labels": {"kubernetes.io/service-name": "convert"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": urlsplit(hook.url).port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        }
        await created(admin, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
        code, body = await admin("GET", f"{V2}/s")
        assert (code, body["spec"]) == (200, {"width": 3, "height": 4})


async def test_a_policy_sees_the_version_that_its_rule_names(admin: HttpAsker) -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE"], "resources": ["screens"]}  # fmt: skip
    checks = [{"expression": "object.spec.width < 100", "message": "too wide"}]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": checks}
    await created(admin, f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "narrow"}, "spec": spec})
    bound = {"policyName": "narrow", "validationActions": ["Deny"]}
    await created(
        admin, f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "narrow"}, "spec": bound}
    )
    code, body = await admin("POST", V1, screen("wide", "v1", size="300x1"))
    assert (code, "too wide" in body["message"]) == (422, True)
    await created(admin, V1, screen("narrow", "v1", size="30x1"))
