"""Binding, eviction, scale, and what is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, NotImplementedYet
from dray.api.resources import BY_NAME
from dray.apiserver.request import JSON_PATCH, MERGE_PATCH
from tests import objects
from tests.apiserver.asking import DEPLOYMENTS, PODS, Asker, pod

BINDINGS = BY_NAME["", "bindings"]
ACCOUNTS = BY_NAME["", "serviceaccounts"]


def binding(node: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}


def deployment(replicas: int | None) -> dict[str, Any]:
    return objects.deployment("d", replicas)


async def test_a_binding_assigns_a_pod_to_a_node(ask: Asker) -> None:
    created = await ask.create(PODS, pod("p"))
    answer = await ask("create", PODS, "p", binding("n1", uid=created.metadata.uid), subresource="binding")
    assert answer.code == 201
    assert answer.tree is not None
    assert answer.tree["status"] == "Success"
    bound = await ask.get(PODS, "p")
    assert bound.spec.nodeName == "n1"
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]


async def test_a_pod_is_bound_once(ask: Asker) -> None:
    await ask.create(PODS, pod("p"))
    await ask("create", BINDINGS, body=binding("n1", name="p"))
    with pytest.raises(Conflict, match='pod p is already assigned to node "n1"'):
        await ask("create", PODS, "p", binding("n2"), subresource="binding")


@pytest.mark.parametrize(
    ("prepare", "metadata", "error", "text"),
    [
        ({}, {"uid": "other"}, Conflict, "the UID in the precondition"),
        ({"finalizers": ["example.com/x"]}, {}, Conflict, "is being deleted"),
    ],
)
async def test_a_pod_that_changed_is_not_bound(
    ask: Asker, prepare: Any, metadata: Any, error: type[ApiError], text: str
) -> None:
    await ask.create(PODS, pod("p", **prepare))
    if prepare:
        await ask("delete", PODS, "p")
    with pytest.raises(error, match=text):
        await ask("create", PODS, "p", binding("n1", **metadata), subresource="binding")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"target": {"kind": "Pod", "name": "n"}}, Invalid),
        ({"target": {"kind": "Node"}}, Invalid),
        ({"target": 5}, BadRequest),
        (None, BadRequest),
    ],
)
async def test_bindings_to_nothing_are_refused(ask: Asker, body: Any, error: type[ApiError]) -> None:
    await ask.create(PODS, pod("p"))
    with pytest.raises(error):
        await ask("create", PODS, "p", body, subresource="binding")


async def test_an_eviction_deletes_as_it_is_told(ask: Asker) -> None:
    await ask.create(PODS, pod("p", node="n"))
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 3}}
    answer = await ask("create", PODS, "p", body, subresource="eviction")
    assert answer.code == 201
    assert (await ask.get(PODS, "p")).metadata.deletionGracePeriodSeconds == 3
    with pytest.raises(NotFound):
        await ask("create", PODS, "q", {"metadata": {"name": "q"}}, subresource="eviction")


async def test_a_scale_shows_and_sets_replicas(ask: Asker) -> None:
    await ask.create(DEPLOYMENTS, deployment(3))
    scale = (await ask("get", DEPLOYMENTS, "d", subresource="scale")).tree
    assert scale is not None
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 3}, "app=d")
    scale["spec"]["replicas"] = 5
    updated = (await ask("update", DEPLOYMENTS, "d", scale, subresource="scale")).tree
    assert updated is not None
    assert updated["spec"] == {"replicas": 5}
    patched = (await ask("patch", DEPLOYMENTS, "d", {"spec": {"replicas": 0}}, subresource="scale")).tree
    assert patched is not None
    assert (await ask.get(DEPLOYMENTS, "d")).spec.replicas == 0


async def test_a_patch_of_a_scale_is_made_again_when_it_meets_another_write(ask: Asker) -> None:
    await ask.create(DEPLOYMENTS, deployment(3))
    scaling = [
        ask("patch", DEPLOYMENTS, "d", {"spec": {"replicas": count}}, subresource="scale") for count in range(4, 7)
    ]
    labelling = [ask("patch", DEPLOYMENTS, "d", {"metadata": {"labels": {f"l{n}": "x"}}}) for n in range(3)]
    await asyncio.gather(*scaling, *labelling)
    found = await ask.get(DEPLOYMENTS, "d")
    assert found.spec.replicas in (4, 5, 6)
    assert len(found.metadata.labels) == 3


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"metadata": {"resourceVersion": "9999"}, "spec": {"replicas": 1}}, MERGE_PATCH),
        ([{"op": "replace", "path": "/metadata/resourceVersion", "value": "9999"}], JSON_PATCH),
    ],
)
async def test_a_patch_of_a_scale_may_be_based_on_a_version(ask: Asker, patch: Any, kind: str) -> None:
    await ask.create(DEPLOYMENTS, deployment(3))
    with pytest.raises(Conflict):
        await ask("patch", DEPLOYMENTS, "d", patch, subresource="scale", patch_type=kind)


async def test_a_scale_is_based_on_a_version_too(ask: Asker) -> None:
    await ask.create(DEPLOYMENTS, deployment(None))
    stale = {"metadata": {"name": "d", "resourceVersion": "9999"}, "spec": {"replicas": 1}}
    with pytest.raises(Conflict):
        await ask("update", DEPLOYMENTS, "d", stale, subresource="scale")


@pytest.mark.parametrize("verb", ["update", "patch"])
async def test_a_scale_may_say_which_object_is_meant(ask: Asker, verb: str) -> None:
    made = await ask.create(DEPLOYMENTS, deployment(1))
    scale = {"metadata": {"uid": "other"}, "spec": {"replicas": 2}}
    text = f'deployments.apps "d": Precondition failed: UID in precondition: other, UID in object meta: {made.metadata.uid}'
    with pytest.raises(Conflict, match=text):
        await ask(verb, DEPLOYMENTS, "d", scale, subresource="scale")
    assert (await ask.get(DEPLOYMENTS, "d")).spec.replicas == 1
    await ask(verb, DEPLOYMENTS, "d", {**scale, "metadata": {"uid": made.metadata.uid}}, subresource="scale")
    assert (await ask.get(DEPLOYMENTS, "d")).spec.replicas == 2


@pytest.mark.parametrize(
    ("scale", "error", "text"),
    [
        ({"spec": {"replicas": "many"}}, BadRequest, "cannot be handled as a Scale: .*spec.replicas"),
        ({"spec": {"replicas": -1}}, Invalid, r'Scale.autoscaling "d" is invalid: spec\.replicas: Invalid value: -1'),
        ({"kind": "Deployment"}, BadRequest, "must be of type Scale"),
        ({"metadata": {"name": "e"}}, BadRequest, "does not match the name on the URL"),
    ],
)
async def test_a_scale_that_is_none_is_refused(ask: Asker, scale: Any, error: type[ApiError], text: str) -> None:
    await ask.create(DEPLOYMENTS, deployment(1))
    with pytest.raises(error, match=text):
        await ask("update", DEPLOYMENTS, "d", scale, subresource="scale")
    assert (await ask.get(DEPLOYMENTS, "d")).spec.replicas == 1


async def test_who_scales_manages_the_replicas_by_way_of_the_scale(ask: Asker) -> None:
    await ask.create(DEPLOYMENTS, deployment(1))
    scale = {"spec": {"replicas": 2}}
    await ask("patch", DEPLOYMENTS, "d", scale, subresource="scale", field_manager="scaler")
    (entry,) = (await ask.get(DEPLOYMENTS, "d")).metadata.managedFields
    assert (entry.manager, entry.subresource, entry.apiVersion) == ("scaler", "scale", "apps/v1")
    assert entry.fieldsV1 == {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize("name", ["exec", "attach", "portforward", "proxy", "log"])
async def test_what_needs_a_way_to_a_node_says_that_there_is_none(ask: Asker, name: str) -> None:
    await ask.create(PODS, pod("p"))
    with pytest.raises(NotImplementedYet, match=f"pods/{name} is not implemented"):
        await ask("get", PODS, "p", subresource=name)


async def test_a_server_without_keys_issues_no_tokens(ask: Asker) -> None:
    with pytest.raises(NotImplementedYet):
        await ask("create", ACCOUNTS, "default", {}, subresource="token")


# pods/ephemeralcontainers and pods/resize


async def test_an_ephemeral_container_is_added_and_nothing_else_changes(ask: Asker) -> None:
    await ask.create(PODS, pod("p", labels={"a": "b"}))
    patch = {
        "metadata": {"labels": {"a": "other"}, "annotations": {"added": "yes"}},
        "spec": {"nodeName": "elsewhere", "ephemeralContainers": [{"name": "debug", "image": "tools", "stdin": True}]},
    }
    changed = await ask.patch(PODS, "p", patch, subresource="ephemeralcontainers")
    [container] = changed.spec.ephemeralContainers
    assert (container.name, container.stdin, container.terminationMessagePolicy) == ("debug", True, "File")
    assert (changed.metadata.labels, changed.metadata.annotations, changed.spec.nodeName) == ({"a": "b"}, {}, "")


async def test_ephemeral_containers_neither_change_nor_go(ask: Asker) -> None:
    await ask.create(PODS, pod("p"))
    await add(ask, {"name": "debug", "image": "tools"})
    with pytest.raises(Invalid, match='existing ephemeral containers "debug" may not be changed'):
        await add(ask, {"name": "debug", "image": "others"})
    with pytest.raises(Invalid, match='existing ephemeral containers "debug" may not be removed'):
        await ask.patch(PODS, "p", {"spec": {"ephemeralContainers": None}}, subresource="ephemeralcontainers")


async def add(ask: Asker, container: dict[str, Any]) -> Any:
    patch = {"spec": {"ephemeralContainers": [container]}}
    return await ask.patch(PODS, "p", patch, subresource="ephemeralcontainers")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ports": [{"containerPort": 80}]}, r"ports: Forbidden: cannot be set for an Ephemeral Container"),
        ({"resources": {"limits": {"cpu": "1"}}}, r"resources: Forbidden"),
        ({"livenessProbe": {"exec": {"command": ["true"]}}}, r"livenessProbe: Forbidden"),
        ({"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}, r"lifecycle: Forbidden"),
        ({"targetContainerName": "nobody"}, r'targetContainerName: Not found: "nobody"'),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "x"}]}, r"subPath: Forbidden"),
        ({"image": ""}, r"image: Required value"),
        ({"name": "c"}, r'name: Duplicate value: "c"'),
    ],
)
async def test_an_ephemeral_container_takes_no_part_in_what_the_pod_does(ask: Asker, fields: Any, text: str) -> None:
    tree = pod("p")
    tree["spec"]["containers"][0]["name"] = "c"
    tree["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    await ask.create(PODS, tree)
    with pytest.raises(Invalid, match=text):
        await add(ask, {"name": "debug", "image": "tools", **fields})


async def test_a_resize_changes_what_containers_may_use_and_nothing_else(ask: Asker) -> None:
    made = await ask.create(PODS, pod("p"))
    [container] = made.spec.containers
    wanted = {"name": container.name, "image": "another", "resources": {"requests": {"cpu": "2"}}}
    changed = await ask.patch(PODS, "p", {"spec": {"containers": [wanted]}}, subresource="resize")
    [after] = changed.spec.containers
    assert (after.image, after.resources.requests) == (container.image, {"cpu": "2"})
