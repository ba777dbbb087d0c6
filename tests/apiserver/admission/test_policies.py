"""Admission policies: which requests they see, what they say, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import ApiError, Forbidden
from dray.api.resources import BY_TYPE
from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.api.types.core import Binding, ObjectReference, Pod
from dray.api.users import ADMIN, NODE_NAME, User, service_account_user
from dray.api.wire import Tree
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.admission.judges import JudgingContext
from dray.apiserver.admission.validating_policies import ValidatingPolicies
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.admission.writing import create, delete, update
from tests.apiserver.reading import Objects, binding, claim, exactly, namespace, pod, role, rule, slice_, user_subject

GROUP = "admissionregistration.k8s.io/v1"
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
JANE = User("jane", groups=("devs",))


def policy(*validations: str | Tree, name: str = "p", match: Tree | None = None, **spec: Any) -> Tree:
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    match = {"resourceRules": [EVERYTHING], **(match or {})}
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": match, "validations": checks, "failurePolicy": "Fail", **spec},
    }


def bound(name: str = "b", to: str = "p", actions: tuple[str, ...] = ("Deny",), **spec: Any) -> Tree:
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": to, "validationActions": list(actions), **spec},
    }


def plugin(*trees: Tree) -> ValidatingPolicies:
    return enforcing(Objects(*trees))


@asynccontextmanager
async def computing(plugin: ValidatingPolicies) -> AsyncIterator[ValidatingPolicies]:
    """A plugin that may start a worker process."""
    try:
        yield plugin
    finally:
        await plugin._resolver.background.close()


def enforcing(objects: Objects) -> ValidatingPolicies:
    return ValidatingPolicies(JudgingContext.alone(objects, Union(Rbac(objects))))


async def refusal(attempt: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await attempt
    return caught.value


async def says(attempt: Awaitable[Any]) -> str:
    """What the refusal says after the part that all refusals have."""
    head, _, message = (await refusal(attempt)).message.partition(" denied request: ")
    assert head.endswith("ValidatingAdmissionPolicy 'p' with binding 'b'")
    return message


async def test_a_refusal_names_object_policy_and_binding() -> None:
    error = await refusal(create(plugin(policy("false"), bound()), slice_("s")))
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false"
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'resourceslices.resource.k8s.io "s" is forbidden: {text}',
        "reason": "Invalid",
        "details": {
            "name": "s",
            "group": "resource.k8s.io",
            "kind": "resourceslices",
            "causes": [{"message": text}],
        },
        "code": 422,
    }


@pytest.mark.parametrize(
    ("reason", "code"), [("Unauthorized", 401), ("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
async def test_the_reason_decides_the_code(reason: str, code: int) -> None:
    error = await refusal(create(plugin(policy({"expression": "false", "reason": reason}), bound()), pod("x")))
    assert (error.reason, error.code) == (reason, code)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"message": " because "}, "because"),
        ({"message": "because", "messageExpression": "'not ' + object.metadata.name"}, "not x"),
        ({"message": "because", "messageExpression": "object.metadata.nope"}, "because"),
        ({"message": "because", "messageExpression": "'two\\nlines'"}, "because"),
        ({"message": "because", "messageExpression": "'  '"}, "because"),
        ({"messageExpression": "'" + "a" * 6000 + "'"}, "failed expression: 1 == 2"),
        ({}, "failed expression: 1 == 2"),
    ],
)
async def test_the_message(validation: Tree, message: str) -> None:
    assert await says(create(plugin(policy({"expression": " 1 == 2 ", **validation}), bound()), pod("x"))) == message


async def test_nothing_is_enforced_without_a_binding_and_from_then_on_everything() -> None:
    objects = Objects(policy("false"))
    asked = enforcing(objects)
    await create(asked, pod("x"))
    objects.put(bound(to="other"))
    await create(asked, pod("x"))
    objects.put(bound())
    assert await says(create(asked, pod("x"))) == "failed expression: false"
    objects.put(policy("object.metadata.name == 'x'"))
    await create(asked, pod("x"))
    assert await says(create(asked, pod("y"))) == "failed expression: object.metadata.name == 'x'"


@pytest.mark.parametrize("denying", ["a", "b"])
async def test_of_two_bindings_of_a_policy_one_that_denies_is_enough(denying: str) -> None:
    bindings = [bound(name, actions=("Deny",) if name == denying else ("Audit",)) for name in "ab"]
    error = await refusal(create(plugin(policy("false"), *bindings), pod("x")))
    assert f"with binding '{denying}' denied request" in error.message


async def test_a_policy_that_comes_after_its_binding_is_enforced() -> None:
    objects = Objects(bound())
    asked = enforcing(objects)
    await create(asked, pod("x"))
    objects.put(policy("false"))
    assert await says(create(asked, pod("x"))) == "failed expression: false"


async def test_the_first_refusal_is_the_answer() -> None:
    trees = policy("true", "1 > 2", "false"), bound(), policy("false", name="q"), bound("c", "q")
    assert await says(create(plugin(*trees), pod("x"))) == "failed expression: 1 > 2"


async def test_objects_of_each_operation() -> None:
    asked = plugin(
        policy(
            "request.operation != 'CREATE' || (oldObject == null && object.metadata.name == 'x')",
            "request.operation != 'UPDATE' || (oldObject.spec.nodeName == '' && object.spec.nodeName == 'n')"
            " || !has(oldObject.spec.nodeName)",
            "request.operation != 'DELETE' || (object == null && oldObject.metadata.name == 'x')",
            "request.name == 'x'",
        ),
        bound(),
    )
    await create(asked, pod("x"))
    await update(asked, pod("x"), pod("x", node="n"))
    await delete(asked, pod("x"))
    assert "oldObject" in await says(update(asked, pod("x", node="m"), pod("x", node="n")))


async def test_lists_and_maps_are_what_they_are() -> None:
    asked = plugin(
        policy("object.spec.containers.all(c, c.image in ['app'])", "object.spec.containers.size() == 1"), bound()
    )
    await create(asked, pod("x"))
    await refusal(create(asked, pod("x", containers=[{"name": "c", "image": "other"}])))


async def test_what_is_posted_to_a_subresource_is_the_object() -> None:
    asked = plugin(
        policy("object.target.name == 'n' && oldObject == null && request.subResource == 'binding'"), bound()
    )

    def bind(node: str) -> AdmissionRequest:
        binding = Binding(target=ObjectReference(name=node))
        return AdmissionRequest(ADMIN, "CREATE", BY_TYPE[Pod], "default", "x", "binding", object=binding)

    await Chain([asked]).validate(bind("n"))
    await refusal(Chain([asked]).validate(bind("m")))


# Which requests


@pytest.mark.parametrize(
    ("change", "matches"),
    [
        ({}, True),
        ({"operations": ["DELETE"]}, False),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["v1beta1"]}, True),
        ({"apiVersions": ["v1alpha3"]}, False),
        ({"resources": ["resourceclaims"]}, False),
        ({"resources": ["resourceslices/status"]}, False),
        ({"scope": "Namespaced"}, False),
        ({"resourceNames": ["other"]}, False),
        ({"resourceNames": ["other", "s"]}, True),
    ],
)
async def test_rules(change: Tree, matches: bool) -> None:
    rule_ = {**EVERYTHING, "apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], **change}
    for asked, refused in (
        (plugin(policy("false", match={"resourceRules": [rule_]}), bound()), matches),
        (plugin(policy("false", match={"excludeResourceRules": [rule_]}), bound()), not matches),
        (plugin(policy("false"), bound(matchResources={"resourceRules": [rule_]})), matches),
    ):
        if refused:
            await refusal(create(asked, slice_("s")))
        else:
            await create(asked, slice_("s"))


async def test_names_do_not_stick() -> None:
    asked = plugin(policy("false", match={"resourceRules": [{**EVERYTHING, "resourceNames": ["bad"]}]}), bound())
    await create(asked, pod("good"))
    await refusal(create(asked, pod("bad")))
    await create(asked, pod("good"))


async def test_the_object_is_seen_in_the_version_of_the_rule() -> None:
    flat = "object.apiVersion == 'resource.k8s.io/v1beta1' && object.spec.devices.requests[0].deviceClassName == 'gpu'"
    asked_in = "request.requestKind.version == 'v1' && request.kind.version == 'v1beta1'"
    old = {"resourceRules": [{**EVERYTHING, "apiVersions": ["v1beta1"]}]}
    await create(plugin(policy(flat, asked_in, match=old), bound()), claim("c", exactly("r")))
    exact = plugin(policy("false", match={**old, "matchPolicy": "Exact"}), bound())
    await create(exact, claim("c", exactly("r")))
    await refusal(create(exact, claim("c", exactly("r")), version="v1beta1"))


@pytest.mark.parametrize("labels", [{"tier": "dear"}, {}])
async def test_selectors(labels: dict[str, str]) -> None:
    selector = {"matchLabels": {"tier": "dear"}}
    spaces = namespace("default", labels=labels)
    thing = pod("x")
    thing["metadata"]["labels"] = labels
    for asked in (
        plugin(spaces, policy("false", match={"namespaceSelector": selector}), bound()),
        plugin(spaces, policy("false"), bound(matchResources={"namespaceSelector": selector})),
        plugin(spaces, policy("false", match={"objectSelector": selector}), bound()),
    ):
        if labels:
            await refusal(create(asked, thing))
        else:
            await create(asked, thing)


async def test_policies_do_not_judge_policies() -> None:
    types = ValidatingPolicies.types
    assert ValidatingAdmissionPolicy not in types
    assert ValidatingAdmissionPolicyBinding not in types
    assert len(types) > 20


async def test_conditions_decide_whether_a_policy_applies() -> None:
    conditions = [
        {"name": "jane", "expression": "request.userInfo.username == 'jane'"},
        {"name": "new", "expression": "object.metadata.name.startsWith('new')"},
    ]
    asked = plugin(policy("false", matchConditions=conditions), bound())
    await create(asked, pod("new-one"))
    await create(asked, pod("old"), user=JANE)
    await refusal(create(asked, pod("new-one"), user=JANE))


async def test_conditions_that_fail() -> None:
    failing = {"name": "odd", "expression": "object.spec.nope == 1"}
    no = {"name": "no", "expression": "false"}
    text = "expression 'object.spec.nope == 1' resulted in error: no such key: nope"
    assert await says(create(plugin(policy("true", matchConditions=[failing]), bound()), pod("x"))) == text
    both = plugin(policy("true", matchConditions=[failing, {**failing, "name": "odder"}]), bound())
    assert await says(create(both, pod("x"))) == f"[{text}, {text}]"
    await create(plugin(policy("false", matchConditions=[failing, no]), bound()), pod("x"))
    lenient = policy("false", matchConditions=[failing], failurePolicy="Ignore")
    await create(plugin(lenient, bound()), pod("x"))


# What comes of it


async def test_failures_refuse_or_not_as_the_policy_says() -> None:
    text = "expression 'object.spec.nope == 1' resulted in error: no such key: nope"
    assert await says(create(plugin(policy("object.spec.nope == 1"), bound()), pod("x"))) == text
    lenient = policy("object.spec.nope == 1", "object.metadata.name != 'bad'", failurePolicy="Ignore")
    await create(plugin(lenient, bound()), pod("x"))
    await refusal(create(plugin(lenient, bound()), pod("bad")))


async def test_warnings() -> None:
    trees = policy("false", {"expression": "1 > 2", "message": "too few"}), bound(actions=("Warn", "Audit"))
    asked = await create(plugin(*trees), pod("x"))
    told = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
    assert asked.warnings == [f"{told}failed expression: false", f"{told}too few"]


async def test_audit_alone_neither_refuses_nor_warns() -> None:
    assert (await create(plugin(policy("false"), bound(actions=("Audit",))), pod("x"))).warnings == []


async def test_an_annotation_that_cannot_be_made_refuses() -> None:
    bad = [{"key": "k", "valueExpression": "object.spec.nope"}]
    asked = plugin(policy("true", auditAnnotations=[{"key": "k", "valueExpression": "'v'"}]), bound(actions=("Audit",)))
    await create(asked, pod("x"))
    text = [{"key": "k", "valueExpression": "string(object.spec.nope)"}]
    asked = plugin(policy("true", auditAnnotations=text), bound(actions=("Audit",)))
    assert "no such key: nope" in await says(create(asked, pod("x")))
    assert "compilation error" in await says(create(plugin(policy("true", auditAnnotations=bad), bound()), pod("x")))
    await create(plugin(policy("true", auditAnnotations=text, failurePolicy="Ignore"), bound()), pod("x"))


async def test_an_expression_that_runs_away_is_stopped() -> None:
    numbers = f"{list(range(400))}"
    endless = f"{numbers}.all(a, {numbers}.all(b, '{'x' * 10_000}'.matches('{'y' * 100}') || a + b >= 0))"
    async with computing(plugin(policy(endless), bound())) as asked:
        message = await says(create(asked, pod("x")))
    assert message.endswith("actual cost limit exceeded")


async def test_what_takes_long_is_evaluated_in_another_process_with_the_same_verdict() -> None:
    numbers = f"{list(range(20))}"
    slow = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    checks = policy(
        f"{slow} && object.metadata.name == 'good'", f"{slow} && namespaceObject.metadata.name == 'default'"
    )
    warning = bound(actions=("Warn",))
    async with computing(plugin(checks, bound(), namespace("default"))) as asked:
        await create(asked, pod("good"))
        assert (await says(create(asked, pod("bad")))).startswith("failed expression: [0, 1")
        assert asked._resolver.background.pid is not None
    async with computing(plugin(checks, warning, namespace("default"))) as asked:
        assert len((await create(asked, pod("bad"))).warnings) == 1


async def test_an_evaluation_that_takes_long_does_not_hold_the_event_loop() -> None:
    numbers = f"{list(range(32))}"
    slow = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    async with computing(plugin(policy(slow), bound())) as asked:
        began = time.thread_time()
        await create(asked, pod("x"))
        assert time.thread_time() - began < 0.2


# Variables, namespace, user, authorizer


async def test_variables() -> None:
    variables = [
        {"name": "images", "expression": "object.spec.containers.map(c, c.image)"},
        {"name": "foreign", "expression": "variables.images.filter(i, !i.startsWith('registry/'))"},
    ]
    check = {"expression": "variables.foreign.size() == 0", "messageExpression": "variables.foreign.join(', ')"}
    asked = plugin(policy(check, variables=variables), bound())
    assert await says(create(asked, pod("x"))) == "app"
    await create(asked, pod("x", containers=[{"name": "c", "image": "registry/app"}]))


async def test_the_namespace() -> None:
    spaces = namespace("default", labels={"a": "b"}, creationTimestamp="2026-01-01T00:00:00Z")
    asked = plugin(
        spaces,
        policy(
            "namespaceObject.metadata.labels.a == 'b'",
            "namespaceObject.metadata.creationTimestamp.getFullYear() == 2026",
            "namespaceObject.metadata.UID != ''",
        ),
        bound(),
    )
    await create(asked, pod("x"))
    cluster_wide = plugin(spaces, policy("namespaceObject == null"), bound())
    await create(cluster_wide, slice_("s"))
    await refusal(create(cluster_wide, pod("x")))


async def test_the_user() -> None:
    asked = plugin(policy("'devs' in request.userInfo.groups && request.userInfo.username == 'jane'"), bound())
    await create(asked, pod("x"), user=JANE)
    await refusal(create(asked, pod("x"), user=User("joe", groups=("devs",))))


async def test_the_authorizer() -> None:
    allows = role("r", rule("approve", "pods"), namespace="default")
    objects = allows, binding("rb", "r", user_subject("jane"), namespace="default")
    asked = plugin(*objects, policy("authorizer.requestResource.check('approve').allowed()"), bound())
    await create(asked, pod("x"), user=JANE)
    await refusal(create(asked, pod("x"), user=User("joe")))
    group = "authorizer.group('').resource('pods').namespace('default')"
    account = "authorizer.serviceAccount('default', 'a').group('').resource('pods').check('approve').allowed()"
    asked = plugin(*objects, policy(f"{group}.check('approve').allowed() && !{account}"), bound())
    await create(asked, pod("x"), user=JANE)


async def test_a_driver_is_confined_to_its_node() -> None:
    mine = service_account_user("drivers", "gpu", extra={NODE_NAME: ("n1",)})
    conditions = [{"name": "driver", "expression": f"request.userInfo.username == '{mine.name}'"}]
    node = "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')"
    asked = plugin(
        policy(
            {"expression": f"'{NODE_NAME}' in request.userInfo.extra", "reason": "Forbidden"},
            {"expression": f"request.userInfo.extra['{NODE_NAME}'][0] == variables.node", "reason": "Forbidden"},
            variables=[{"name": "node", "expression": node}],
            matchConditions=conditions,
        ),
        bound(),
    )
    await create(asked, slice_("s", "n1"), user=mine)
    await delete(asked, slice_("s", "n1"), user=mine)
    for attempt in (
        create(asked, slice_("s", "n2"), user=mine),
        create(asked, slice_("s"), user=mine),
        update(asked, slice_("s", "n2"), slice_("s", "n2"), user=mine),
        delete(asked, slice_("s", "n2"), user=mine),
        create(asked, slice_("s", "n1"), user=service_account_user("drivers", "gpu", extra={"x": ("y",)})),
    ):
        assert isinstance(await refusal(attempt), Forbidden)
    await create(asked, slice_("s", "n2"))


# Parameters

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def config(name: str, most: str, where: str = "default", **labels: str) -> Tree:
    return {**CONFIG, "metadata": {"name": name, "namespace": where, "labels": labels}, "data": {"most": most}}


def limited(**reference: Any) -> tuple[Tree, Tree]:
    reference = {"parameterNotFoundAction": "Deny", **reference}
    return policy("object.metadata.name.size() <= int(params.data.most)", paramKind=CONFIG), bound(paramRef=reference)


async def test_parameters_by_name_in_the_namespace_of_the_request() -> None:
    asked = plugin(*limited(name="c"), config("c", "3"), config("c", "9", "other"))
    await create(asked, pod("abc"))
    assert "failed expression" in await says(create(asked, pod("abcd")))
    await create(asked, pod("abcd", "other"))


async def test_parameters_in_another_namespace() -> None:
    asked = plugin(*limited(name="c", namespace="other"), config("c", "3", "other"))
    await refusal(create(asked, pod("abcd")))
    await refusal(create(asked, slice_("abcd")))
    await create(asked, slice_("abc"))


async def test_all_selected_parameters_must_agree() -> None:
    selector = {"matchLabels": {"on": "yes"}}
    asked = plugin(
        *limited(selector=selector), config("a", "9", on="yes"), config("b", "2", on="yes"), config("c", "0")
    )
    await create(asked, pod("ab"))
    await refusal(create(asked, pod("abc")))


async def test_parameters_that_are_missing() -> None:
    missing = "no params found for policy binding with `Deny` parameterNotFoundAction"
    assert await says(create(plugin(*limited(name="c")), pod("x"))) == f"failed to configure binding: {missing}"
    await create(plugin(*limited(name="c", parameterNotFoundAction="Allow")), pod("x"))
    homeless = await says(create(plugin(*limited(name="c")), slice_("x")))
    assert homeless.endswith("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")


async def test_a_binding_may_go_without_parameters() -> None:
    await create(plugin(policy("params == null", paramKind=CONFIG), bound()), pod("x"))


async def test_a_kind_of_parameters_that_does_not_exist() -> None:
    kind = {"apiVersion": "example.com/v1", "kind": "Limits"}
    error = await refusal(create(plugin(policy("true", paramKind=kind), bound()), pod("x")))
    assert error.message == (
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
        "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limits'"
    )
    await create(plugin(policy("true", paramKind=kind, failurePolicy="Ignore"), bound()), pod("x"))
    cluster_wide = {"apiVersion": "v1", "kind": "Node"}
    reference = {"name": "n", "namespace": "default", "parameterNotFoundAction": "Allow"}
    asked = plugin(policy("true", paramKind=cluster_wide), bound(paramRef=reference))
    assert "must not be provided for a cluster-scoped `paramKind`" in await says(create(asked, pod("x")))
