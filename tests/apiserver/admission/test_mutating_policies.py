"""Mutating policies on a real server: what their expressions make of objects, where they act, and how they fail."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests import objects
from tests.apiserver.admission.hooking import hooking
from tests.apiserver.asking import HttpAsker, created, pod, serving
from tests.waiting import eventually

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys, disabled_plugins=("ServiceAccount",)) as asker:
        yield asker


def apply(expression: str) -> Tree:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Tree:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(*mutations: Tree, name: str = "p", resources: str = "pods", group: str = "", **spec: Any) -> Tree:
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resources]}
    whole = {"matchConstraints": {"resourceRules": [rule]}, "mutations": list(mutations), "reinvocationPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {**whole, "failurePolicy": "Fail", **spec}}


async def bind(admin: HttpAsker, *policies: Tree, **binding: Any) -> None:
    for one in policies:
        await created(admin, POLICIES, one)
        name = one["metadata"]["name"]
        spec = {"policyName": name, **binding}
        await created(admin, BINDINGS, {"metadata": {"name": f"{name}-binding"}, "spec": spec})


LABEL = 'Object{metadata: Object.metadata{labels: {"by": "policy"}}}'


async def test_a_part_is_laid_over_the_object(admin: HttpAsker) -> None:
    sidecar = """Object{spec: Object.spec{containers: [
        Object.spec.containers{name: "sidecar", image: object.spec.containers[0].image + "-side"}]}}"""
    await bind(admin, policy(apply(LABEL), apply(sidecar)))
    body = pod("p")
    body["metadata"]["labels"] = {"own": "x"}
    body = await created(admin, PODS, body)
    assert body["metadata"]["labels"] == {"own": "x", "by": "policy"}
    own, added = body["spec"]["containers"]
    assert (added["name"], added["image"], added["imagePullPolicy"]) == ("sidecar", own["image"] + "-side", "Always")


async def test_operations_are_done(admin: HttpAsker) -> None:
    key = '"/metadata/labels/" + jsonpatch.escapeKey("example.com/x")'
    texts = f"""has(object.metadata.labels)
        ? [JSONPatch{{op: "add", path: {key}, value: "again"}}]
        : [JSONPatch{{op: "add", path: "/metadata/labels", value: {{}}}}, JSONPatch{{op: "add", path: {key}, value: "1"}}]"""
    each = """object.spec.containers.map(c, JSONPatch{op: "add", path: "/spec/containers/0/env",
        value: [Object.spec.containers.env{name: "A", value: c.name}]})"""
    await bind(admin, policy(patch(texts), patch(each)))
    body = await created(admin, PODS, pod("p"))
    assert body["metadata"]["labels"] == {"example.com/x": "1"}
    assert body["spec"]["containers"][0]["env"] == [{"name": "A", "value": body["spec"]["containers"][0]["name"]}]


async def test_a_test_that_fails_leaves_the_object_alone(admin: HttpAsker) -> None:
    both = '[JSONPatch{op: "test", path: "/metadata/name", value: "q"}, JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'
    await bind(admin, policy(patch(both)))
    assert "labels" not in (await created(admin, PODS, pod("p")))["metadata"]
    assert (await created(admin, PODS, pod("q")))["metadata"]["labels"] == {"a": "b"}


async def test_conditions_variables_and_old_objects_are_seen(admin: HttpAsker) -> None:
    grown = "Object{data: {'was': string(oldObject.data.count), 'is': variables.next}}"
    chosen = policy(
        apply(grown),
        resources="configmaps",
        matchConditions=[{"name": "grows", "expression": "request.operation == 'UPDATE' && has(object.data)"}],
        variables=[{"name": "next", "expression": "string(int(oldObject.data.count) + 1)"}],
    )
    await bind(admin, chosen)
    body = await created(admin, MAPS, {"metadata": {"name": "m"}, "data": {"count": "4"}})
    assert body["data"] == {"count": "4"}
    _, body = await admin("PATCH", f"{MAPS}/m", {"data": {"x": "y"}}, content_type=MERGE)
    assert body["data"] == {"count": "4", "x": "y", "was": "4", "is": "5"}


async def test_parameters_of_a_custom_kind_are_read(admin: HttpAsker) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "settings", "kind": "Setting"}
    definition = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await created(admin, path, {"metadata": {"name": "settings.example.com"}, "spec": definition})
    settings = "/apis/example.com/v1/namespaces/default/settings"

    async def is_served() -> bool:
        return (await admin.text(settings))[0] == 200

    await eventually(is_served)
    await created(admin, settings, {"kind": "Setting", "apiVersion": "example.com/v1", "metadata": {"name": "s"}, "team": "blue"})  # fmt: skip
    chosen = policy(
        apply("Object{metadata: Object.metadata{labels: {'team': params.team}}}"),
        paramKind={"apiVersion": "example.com/v1", "kind": "Setting"},
    )
    await bind(admin, chosen, paramRef={"name": "s", "parameterNotFoundAction": "Deny"})
    assert (await created(admin, PODS, pod("p")))["metadata"]["labels"] == {"team": "blue"}
    await admin("DELETE", f"{settings}/s")
    code, body = await admin("POST", PODS, pod("q"))
    assert (code, "no params found for policy binding" in body["message"]) == (422, True)


async def test_bindings_choose_where_a_policy_acts(admin: HttpAsker) -> None:
    await bind(admin, policy(apply(LABEL)), matchResources={"objectSelector": {"matchLabels": {"ask": "me"}}})
    plain = await created(admin, PODS, pod("plain"))
    assert "labels" not in plain["metadata"]
    asked = await created(admin, PODS, pod("asked", labels={"ask": "me"}))
    assert asked["metadata"]["labels"] == {"ask": "me", "by": "policy"}


async def test_a_policy_acts_again_after_others(admin: HttpAsker) -> None:
    def counting(name: str, reinvocation: str) -> Tree:
        count = "has(object.metadata.labels) ? string(size(object.metadata.labels)) : '0'"
        text = f"Object{{metadata: Object.metadata{{labels: {{'{name}' + ({count}): 'x'}}}}}}"
        return policy(apply(text), name=name, reinvocationPolicy=reinvocation)

    await bind(admin, counting("a", "IfNeeded"), counting("b", "IfNeeded"), counting("c", "Never"))
    body = await created(admin, PODS, pod("p"))
    assert sorted(body["metadata"]["labels"]) == ["a0", "a3", "b1", "b4", "c2"]


async def test_a_policy_acts_again_after_a_webhook(
    admin: HttpAsker, keys: Keys, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "Object{metadata: Object.metadata{annotations: {'labels': has(object.metadata.labels) ? 'some' : 'none'}}}"
    await bind(admin, policy(apply(text), reinvocationPolicy="IfNeeded"))
    async with hooking(Keys.open(tmp_path_factory.mktemp("hook"))) as hook:
        operation = [{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}]
        encoded = base64.b64encode(json.dumps(operation).encode()).decode()
        hook.answer = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        tree = {**hook.configuration(rules=[rule]), "kind": "MutatingWebhookConfiguration"}
        await created(admin, f"{GROUP}/mutatingwebhookconfigurations", tree)
        body = await created(admin, PODS, pod("p"))
    seen = [request["object"]["metadata"]["annotations"]["labels"] for request in hook.requests]
    assert (seen, body["metadata"]["annotations"]["labels"]) == (["none"], "some")


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (
            apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'l': 'v'}}}}"),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
        ),
        (
            apply("Object{spec: Object.specx{replicas: 1}}"),
            'type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name path '
            "from root Object type",
        ),
        (
            apply("Object{spec: Object.spec{replicasx: 1}}"),
            "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field not declared "
            "in schema",
        ),
        (apply("Object{spec: Object.spec{replicas: object.spec.nope}}"), "resulted in error: no such key: nope"),
        (patch('[JSONPatch{op: "remove", path: "/spec/nope"}]'), "JSON Patch: "),
        (patch("[JSONPatch{op: 'add', path: object.spec.replicas, value: 1}]"), "for JSONPatchType 'path' field"),
        (patch("[JSONPatch{op: 'add', path: '/spec/x', value: quantity('1')}]"), "could not marshal to JSON"),
    ],
)
async def test_a_mutation_that_cannot_be_made_refuses(admin: HttpAsker, mutation: Tree, text: str) -> None:
    await bind(admin, policy(mutation, resources="deployments", group="apps"))
    code, body = await admin("POST", DEPLOYMENTS, objects.deployment("d"))
    assert (code, body["reason"]) == (422, "Invalid")
    assert "is forbidden: policy 'p' with binding 'p-binding' denied request: " in body["message"]
    assert text in body["message"]
    _, found = await admin("GET", f"{POLICIES}/p")
    found["spec"]["failurePolicy"] = "Ignore"
    assert (await admin("PUT", f"{POLICIES}/p", found))[0] == 200
    assert (await admin("POST", DEPLOYMENTS, objects.deployment("d")))[0] == 201


async def test_what_the_schema_does_not_know_is_an_error_of_the_server(admin: HttpAsker) -> None:
    unknown = "[JSONPatch{op: 'add', path: '/spec/containers/0/ports', value: [Object.spec.containers.ports{containerPortZ: 1}]}]"
    await bind(admin, policy(patch(unknown)))
    code, body = await admin("POST", PODS, pod("p"))
    assert code == 500
    assert 'strict decoding error: unknown field "spec.containers[0].ports[0].containerPortZ"' in body["message"]


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (apply('"a teapot"'), "must evaluate to Object but got string"),
        (apply("Object.spec.metadata{}"), "must evaluate to Object but got Object.spec.metadata"),
        (patch("[]"), "must evaluate to list(JSONPatch) but got list(dyn)"),
        (patch("[JSONPatch{op: 1}]"), "expected type of field 'op' is 'string' but provided type is 'int'"),
        (patch("[JSONPatch{pat: ''}]"), "undefined field 'pat'"),
    ],
)
async def test_an_expression_of_another_type_is_refused_with_its_field(
    admin: HttpAsker, mutation: Tree, text: str
) -> None:
    code, body = await admin("POST", POLICIES, policy(mutation))
    assert (code, text in body["message"]) == (422, True)
    assert body["details"]["causes"][0]["field"].startswith("spec.mutations[0].")


async def test_a_mutation_that_takes_long_is_made_in_another_process(admin: HttpAsker) -> None:
    numbers = f"{list(range(25))}"
    slow = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    await bind(admin, policy(apply(f"Object{{metadata: Object.metadata{{labels: {{'slow': string({slow})}}}}}}")))
    assert (await created(admin, PODS, pod("p")))["metadata"]["labels"] == {"slow": "true"}


async def test_a_mutation_that_costs_too_much_fails(admin: HttpAsker) -> None:
    numbers = f"{list(range(100))}"
    endless = f"{numbers}.all(a, {numbers}.all(b, '{'x' * 10_000}'.matches('{'y' * 100}') || a + b >= 0))"
    await bind(admin, policy(apply(f"Object{{metadata: Object.metadata{{labels: {{'x': string({endless})}}}}}}")))
    code, body = await admin("POST", PODS, pod("p"))
    assert (code, "cost limit exceeded" in body["message"]) == (422, True)


async def test_policies_are_not_changed_by_policies(admin: HttpAsker) -> None:
    everything = policy(apply(LABEL), resources="*", group="*")
    await bind(admin, everything)
    other = await created(admin, POLICIES, policy(apply(LABEL), name="other"))
    assert "labels" not in other["metadata"]
    assert (await admin("DELETE", f"{POLICIES}/p"))[0] == 200


async def test_custom_resources_are_changed_too(admin: HttpAsker) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}}}}  # fmt: skip
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    for plural, kind in (("boxes", "Box"), ("crates", "Crate")):
        definition = {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]}  # fmt: skip
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await created(admin, path, {"metadata": {"name": f"{plural}.example.com"}, "spec": definition})
    boxes = "/apis/example.com/v1/namespaces/default/boxes"
    crates = "/apis/example.com/v1/namespaces/default/crates"

    async def are_served() -> bool:
        return {(await admin.text(path))[0] for path in (boxes, crates)} == {200}

    await eventually(are_served)
    parts = "Object{spec: Object.spec{parts: [Object.spec.parts{name: 'lid', n: 1}]}}"
    await bind(admin, policy(apply(parts), resources="boxes", group="example.com"))
    for path, kind, count in ((crates, "Crate", 1), (boxes, "Box", 2)):
        tree = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "b"}, "spec": {"parts": [{"name": "side"}]}}  # fmt: skip
        assert len((await created(admin, path, tree))["spec"]["parts"]) == count


@pytest.mark.parametrize(
    ("field", "value", "codes"),
    [
        ("name", "renamed", (201, 422)),
        ("namespace", "kube-system", (400, 400)),
        ("uid", "11111111-1111-1111-1111-111111111111", (201, 422)),
        ("resourceVersion", "1", (400, 409)),
        ("creationTimestamp", "2001-01-01T00:00:00Z", (201, 200)),
        ("deletionTimestamp", "2001-01-01T00:00:00Z", (201, 422)),
    ],
)
async def test_a_policy_does_not_change_the_identity_of_an_object(
    admin: HttpAsker, field: str, value: str, codes: tuple[int, int]
) -> None:
    before = await created(admin, MAPS, {"metadata": {"name": "old"}})
    await bind(
        admin,
        policy(patch(f'[JSONPatch{{op: "add", path: "/metadata/{field}", value: "{value}"}}]'), resources="configmaps"),
    )
    new, _ = await admin("POST", MAPS, {"metadata": {"name": "new"}})
    changed, _ = await admin("PATCH", f"{MAPS}/old", {"data": {"a": "b"}}, content_type=MERGE)
    assert (new, changed) == codes
    _, body = await admin("GET", MAPS)
    names = {item["metadata"]["name"] for item in body["items"]} - {"kube-root-ca.crt"}
    assert names == {"old"} | ({"renamed" if field == "name" else "new"} if new == 201 else set())
    for name in names:
        code, found = await admin("GET", f"{MAPS}/{name}")
        assert code == 200
        assert field == "name" or found["metadata"].get(field) != value
    _, after = await admin("GET", f"{MAPS}/old")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
