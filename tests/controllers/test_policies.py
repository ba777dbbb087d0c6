"""What the status of admission policies tells about their expressions."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.admissionregistration import ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.wire import Tree
from dray.client import Client
from dray.controllers.policies import PolicyStatus
from tests.controllers.conftest import Start
from tests.waiting import eventually

Policy = ValidatingAdmissionPolicy
DEPLOYMENTS = ("apps", "v1", "deployments")


def rule(group: str, version: str, *resources: str) -> Tree:
    return {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def policy(*validations: str | Tree, rules: list[Tree] | None = None, **spec: Any) -> Tree:
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    match = {"resourceRules": rules if rules is not None else [rule(*DEPLOYMENTS)]}
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": match, "validations": checks, **spec}}


async def observed(client: Client, generation: int = 1) -> Policy:
    async def told() -> Policy | None:
        found = await client.get(Policy, "p")
        return found if found.status.observedGeneration == generation else None

    return await eventually(told)


async def warnings(client: Client, start: Start, tree: Tree) -> list[tuple[str, str]]:
    await client.create(Policy, tree)
    async with start(PolicyStatus):
        checking = (await observed(client)).status.typeChecking
    assert checking is not None
    return [(one.fieldRef, one.warning) for one in checking.expressionWarnings]


async def warnings_after(client: Client, start: Start, tree: Tree, generation: int) -> list[str]:
    """What is told about a policy that is changed."""
    old = await client.get(Policy, "p")
    tree["metadata"]["resourceVersion"] = old.metadata.resourceVersion
    async with start(PolicyStatus):
        await client.update(Policy, tree)
        checking = (await observed(client, generation)).status.typeChecking
    assert checking is not None
    return [one.warning for one in checking.expressionWarnings]


async def test_a_field_that_does_not_exist_is_pointed_at(client: Client, start: Start) -> None:
    found = await warnings(client, start, policy("object.spec.replicas > 1", "object.spec.replica > 1"))
    text = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n"
        " | object.spec.replica > 1\n"
        " | ...........^\n"
    )
    assert found == [("spec.validations[1].expression", text)]


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.namespace != 'x' && has(object.metadata.labels) && 'a' in object.metadata.labels",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('a') || c.ports.exists(p, p.containerPort > 1))",
        "oldObject == null || oldObject.spec.selector.matchLabels['a'] == 'b'",
        "timestamp(object.metadata.creationTimestamp) > timestamp('2026-01-01T00:00:00Z')",
        "object.spec.template.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('1')))",
        "object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '10%'",
        "object.?spec.?replicas.orValue(0) > 1 && request.userInfo.username != 'x'",
        "authorizer.requestResource.check('update').allowed() && namespaceObject.metadata.name == 'x'",
    ],
)
async def test_what_fits_is_not_warned_about(client: Client, start: Start, expression: str) -> None:
    assert await warnings(client, start, policy(expression)) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.spec.replicas == 'one'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("object.metadata.creationTimestamp > timestamp('2026-01-01T00:00:00Z')", "(string, timestamp)"),
        ("object.spec.template.spec.containers.image == 'x'", "does not support field selection"),
        ("oldObject.nope == 1", "undefined field 'nope'"),
    ],
)
async def test_what_does_not_fit(client: Client, start: Start, expression: str, text: str) -> None:
    ((field, warning),) = await warnings(client, start, policy(expression))
    assert field == "spec.validations[0].expression"
    assert text in warning


async def test_every_kind_is_checked_in_its_version(client: Client, start: Start) -> None:
    rules = [rule("", "v1", "pods", "pods/binding", "nopes"), rule("resource.k8s.io", "v1beta1", "resourceclaims")]
    checks = [
        {"expression": "size(object.spec.devices.requests) > 0", "messageExpression": "'on ' + object.spec.nodeName"}
    ]
    found = await warnings(client, start, policy(*checks, rules=rules))
    assert [field for field, _ in found] == [
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
    ]
    assert found[0][1].startswith("/v1, Kind=Pod: ERROR: <input>:1:17: undefined field 'devices'\n")
    assert found[1][1].startswith("resource.k8s.io/v1beta1, Kind=ResourceClaim: ERROR: ")
    both = await warnings_after(client, start, policy("object.nope == 1", rules=rules), generation=2)
    assert both[0].count("undefined field 'nope'") == 2


async def test_parameters_and_variables_have_types_too(client: Client, start: Start) -> None:
    variables = [
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "odd", "expression": "object.nope"},
        {"name": "double", "expression": "variables.replicas * 2"},
    ]
    found = await warnings(
        client,
        start,
        policy(
            "variables.double < int(params.data['most']) && variables.odd == 1",
            "variables.replicas == 'two'",
            "params.datum == 1",
            variables=variables,
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        ),
    )
    assert [field for field, _ in found] == ["spec.validations[1].expression", "spec.validations[2].expression"]


async def test_rules_that_name_no_kind_tell_nothing(client: Client, start: Start) -> None:
    rules = [rule("*", "v1", "pods"), rule("apps", "*", "deployments"), rule("apps", "v1", "*")]
    assert await warnings(client, start, policy("object.nope == 1", rules=rules)) == []


async def test_a_warning_goes_when_the_policy_is_mended(client: Client, start: Start) -> None:
    assert len(await warnings(client, start, policy("object.nope == 1"))) == 1
    assert await warnings_after(client, start, policy("object.spec.replicas == 1"), generation=2) == []
    told = await client.get(Policy, "p")
    assert told.status.typeChecking == TypeChecking()
    async with start(PolicyStatus):
        await client.patch(Policy, "p", {"metadata": {"labels": {"a": "b"}}})
        await client.patch(Policy, "p", {"spec": {"validations": [{"expression": "object.nope == 1"}]}})
        again = await observed(client, 3)
    assert again.status.typeChecking is not None
    (warning,) = again.status.typeChecking.expressionWarnings
    assert isinstance(warning, ExpressionWarning)


async def define(client: Client, spec: Tree) -> None:
    root = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    names = {"plural": "crons", "kind": "Cron"}
    tree = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await client.create(CustomResourceDefinition, {"metadata": {"name": "crons.example.com"}, "spec": tree})

    async def is_established() -> bool:
        found = (await client.get(CustomResourceDefinition, "crons.example.com")).status.conditions
        return any(one.type == "Established" and one.status == "True" for one in found or ())

    await eventually(is_established)


async def test_custom_kinds_are_checked_by_their_schemas(client: Client, start: Start) -> None:
    replicas = {"type": "integer"}
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"n": replicas}}
    odd = {"type": "object", "properties": {"a-b": replicas, "namespace": {"type": "string"}}}
    list_ = {"type": "array", "items": {"type": "object", "properties": {"n": replicas}}}
    await define(
        client, {"type": "object", "properties": {"replicas": replicas, "loose": loose, "odd": odd, "list": list_}}
    )
    found = await warnings(
        client,
        start,
        policy(
            "object.spec.replicas > '1'",
            "object.spec.replica > 1",
            "object.spec.list.all(one, one.m > 1)",
            "object.spec.replicas > 1 && object.spec.loose.whatever > 1 && object.metadata.name != ''",
            "object.spec.odd.a__dash__b > 1 && object.spec.odd.__namespace__ != ''",
            rules=[rule("example.com", "v1", "crons")],
        ),
    )
    assert [field for field, _ in found] == [f"spec.validations[{index}].expression" for index in range(3)]
    assert found[0][1].startswith("example.com/v1, Kind=Cron: ERROR: <input>:1:22: found no matching overload for")
