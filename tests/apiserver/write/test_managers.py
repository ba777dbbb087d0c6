"""Managed fields and server-side apply, as the server keeps them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.errors import BadRequest, Conflict, Invalid, NotFound
from dray.api.resources import BY_NAME
from dray.apiserver.request import APPLY_PATCH, JSON_PATCH
from tests.apiserver.asking import CLAIMS, PODS, Asker, HttpAsker, claim, created, pod

CONFIG = BY_NAME["", "configmaps"]


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


async def apply(ask: Asker, body: Any, manager: str = "me", **options: Any) -> Any:
    return await ask.patch(CONFIG, "c", body, patch_type=APPLY_PATCH, field_manager=manager, **options)


def owners(obj: Any) -> dict[str, str]:
    return {entry.manager: entry.operation for entry in obj.metadata.managedFields}


async def test_an_apply_creates_what_is_not_there(ask: Asker) -> None:
    answer = await ask("patch", CONFIG, "c", config(a="1"), patch_type=APPLY_PATCH, field_manager="me")
    assert answer.code == 201
    assert owners(answer.object) == {"me": "Apply"}
    again = await ask("patch", CONFIG, "c", config(a="1"), patch_type=APPLY_PATCH, field_manager="me")
    assert again.code == 200
    assert again.object is answer.object


async def test_what_is_applied_no_more_is_removed(ask: Asker) -> None:
    await apply(ask, config(a="1", b="2"))
    assert (await apply(ask, config(a="1"))).data == {"a": "1"}


async def test_what_somebody_else_set_is_not_taken_by_accident(ask: Asker) -> None:
    await apply(ask, config(a="1"), "first")
    with pytest.raises(Conflict, match="first") as caught:
        await apply(ask, config(a="2"), "second")
    assert caught.value.details["causes"][0]["field"] == ".data.a"
    taken = await apply(ask, config(a="2"), "second", force=True)
    assert taken.data == {"a": "2"}
    assert owners(taken) == {"second": "Apply"}


async def test_writes_that_name_a_manager_are_kept(ask: Asker) -> None:
    first = await ask.create(CONFIG, config(a="1"), field_manager="kubectl-create")
    assert owners(first) == {"kubectl-create": "Update"}
    patched = await ask.patch(CONFIG, "c", {"data": {"b": "2"}}, field_manager="other")
    assert owners(patched) == {"kubectl-create": "Update", "other": "Update"}


async def test_the_own_parts_of_a_cluster_are_kept_once_somebody_applies(ask: Asker) -> None:
    first = await ask.create(CONFIG, config(a="1"))
    assert owners(first) == {}
    with pytest.raises(Conflict, match="before-first-apply"):
        await apply(ask, config(a="2"))
    applied = await apply(ask, config(b="2"))
    assert owners(applied) == {"before-first-apply": "Update", "me": "Apply"}
    changed = await ask.patch(CONFIG, "c", {"data": {"b": "3"}})
    assert owners(changed) == {"before-first-apply": "Update", "unknown": "Update"}


async def test_entries_survive_updates_that_do_not_repeat_them(ask: Asker) -> None:
    await ask.create(CONFIG, config(a="1"), field_manager="m")
    updated = (await ask("update", CONFIG, "c", config(a="2"))).object
    assert owners(updated) == {"m": "Update"}
    reset = {**config(a="3"), "metadata": {"name": "c", "managedFields": [{}]}}
    assert owners((await ask("update", CONFIG, "c", reset, field_manager="n")).object) == {"n": "Update"}


async def test_who_owns_what_can_be_handed_over(ask: Asker) -> None:
    """As kubectl does when it begins to apply on the server what it applied by itself before."""
    first = await ask.create(CONFIG, config(a="1", b="2"), field_manager="csa")
    entry = msgspec.to_builtins(first.metadata.managedFields[0]) | {"manager": "me", "operation": "Apply"}
    steps = [{"op": "replace", "path": "/metadata/managedFields", "value": [entry]}]
    given = await ask.patch(CONFIG, "c", steps, patch_type=JSON_PATCH, field_manager="csa")
    assert owners(given) == {"me": "Apply"}
    assert (await apply(ask, config(a="1"))).data == {"a": "1"}


@pytest.mark.parametrize(
    "broken",
    [{"fieldsType": "FieldsV2"}, {"fieldsV1": {"f:data": 1}}, {"fieldsV1": {"data": {}}}, {"operation": "Take"}],
)
async def test_entries_that_mean_nothing_leave_the_stored_ones(ask: Asker, broken: dict[str, Any]) -> None:
    first = await ask.create(CONFIG, config(a="1"), field_manager="csa")
    entry = {**msgspec.to_builtins(first.metadata.managedFields[0]), **broken}
    changed = {**config(a="1"), "metadata": {"name": "c", "managedFields": [entry]}}
    updated = (await ask("update", CONFIG, "c", changed, field_manager="csa")).object
    assert updated.metadata.managedFields == first.metadata.managedFields


async def test_entries_survive_short_patches_of_a_status_and_of_labels(ask: Asker) -> None:
    first = await ask.create(PODS, pod("p"), field_manager="m")
    condition = {"type": "Ready", "status": "True"}
    patched = (await ask("patch", PODS, "p", {"status": {"conditions": [condition]}}, subresource="status")).object
    labelled = await ask.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}})
    assert first.metadata.managedFields
    assert patched.metadata.managedFields == first.metadata.managedFields
    assert labelled.metadata.managedFields == first.metadata.managedFields


async def test_defaults_belong_to_who_writes_and_what_admission_adds_to_nobody(http: HttpAsker) -> None:
    plain = await created(http, "/api/v1/namespaces/default/pods", pod("p"))
    given = pod("q")
    given["spec"]["tolerations"] = [{"operator": "Exists"}]
    tolerant = await created(http, "/api/v1/namespaces/default/pods", given)
    fields = [tree["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] for tree in (plain, tolerant)]
    added = {"priority", "serviceAccountName", "tolerations", "volumes"}
    assert added <= plain["spec"].keys()
    assert [{name for name in added if f"f:{name}" in found} for found in fields] == [set(), {"tolerations"}]
    assert all("f:restartPolicy" in found for found in fields)


async def test_who_writes_one_part_leaves_the_owners_of_the_other_alone(http: HttpAsker) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    first = await created(http, path, claim("a"))
    merge = {"content_type": "application/merge-patch+json"}
    _, same = await http("PATCH", f"{path}/a/status", {"status": {}}, **merge, user_agent="other")
    assert same == first
    result = {"request": "r0", "driver": "d.example.com", "pool": "p", "device": "x"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    code, allocated = await http("PATCH", f"{path}/a/status", status, **merge, user_agent="other")
    assert code == 200, allocated
    labels = {"metadata": {"labels": {"l": "1"}}}
    _, labelled = await http("PATCH", f"{path}/a", labels, **merge, user_agent="third")
    fields = {entry["manager"]: entry["fieldsV1"] for entry in labelled["metadata"]["managedFields"]}
    assert [name for name in fields if "f:spec" in fields[name]] == [first["metadata"]["managedFields"][0]["manager"]]
    devices = fields["other"]["f:status"]["f:allocation"]["f:devices"]
    assert "f:results" in devices
    assert fields["third"].keys() == {"f:metadata"}


async def test_a_status_of_a_pod_says_nothing_of_its_owners(http: HttpAsker) -> None:
    path = "/api/v1/namespaces/default/pods"
    await created(http, path, pod("p"))
    status = {"status": {"message": "m"}}
    _, written = await http(
        "PATCH", f"{path}/p/status", status, content_type="application/merge-patch+json", user_agent="other"
    )
    (entry,) = [e for e in written["metadata"]["managedFields"] if e["manager"] == "other"]
    assert entry["fieldsV1"] == {"f:status": {"f:message": {}}}


async def test_an_apply_needs_a_manager_a_kind_and_no_entries(ask: Asker) -> None:
    with pytest.raises(Invalid, match="fieldManager: Required value: is required for apply patch"):
        await apply(ask, config(a="1"), "")
    with pytest.raises(BadRequest):
        await apply(ask, {"metadata": {"name": "c"}})
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be nil"):
        await apply(ask, {**config(), "metadata": {"name": "c", "managedFields": [{"manager": "x"}]}})
    with pytest.raises(BadRequest):
        await apply(ask, [1])


async def test_an_apply_to_a_part_needs_the_whole(ask: Asker) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim("a")}
    with pytest.raises(NotFound):
        await ask.patch(CLAIMS, "a", body, patch_type=APPLY_PATCH, field_manager="m", subresource="status")


async def test_an_apply_may_be_based_on_a_version(ask: Asker) -> None:
    await apply(ask, config(a="1"))
    stale = {**config(a="2"), "metadata": {"name": "c", "resourceVersion": "99"}}
    with pytest.raises(Conflict, match="has been modified"):
        await apply(ask, stale)
