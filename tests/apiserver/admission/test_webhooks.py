"""Webhooks: real HTTPS servers with their own authority, asked about real requests."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dray.api.errors import ApiError, BadRequest, Conflict, Forbidden, InternalError
from dray.api.users import User
from dray.api.wire import Tree
from dray.apiserver.admission import Chain
from dray.apiserver.admission.judges import JudgingContext, Unprocessable
from dray.apiserver.admission.webhooks import ValidatingWebhooks
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import RULE, Answer, Hook, hooking
from tests.apiserver.admission.writing import about, create, delete, update
from tests.apiserver.reading import Objects, binding, claim, exactly, namespace, pod, role, rule, slice_, user_subject
from tests.waiting import within


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("hook"))


@pytest.fixture
async def hook(keys: Keys) -> AsyncIterator[Hook]:
    async with hooking(keys) as hook:
        yield hook


def asking(objects: Objects) -> ValidatingWebhooks:
    return ValidatingWebhooks(JudgingContext.alone(objects, Union(Rbac(objects))))


Make = Callable[..., ValidatingWebhooks]


@pytest.fixture
async def plugin(hook: Hook) -> AsyncIterator[Make]:
    made: list[ValidatingWebhooks] = []

    def make(*trees: Tree, **fields: Any) -> ValidatingWebhooks:
        made.append(asking(Objects(hook.configuration(**fields), *trees)))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


async def refusal(attempt: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await attempt
    return caught.value


async def test_webhook_sees_the_request(hook: Hook, plugin: Make) -> None:
    jane = User("jane", "42", ("devs",), {"scopes": ("a",)})
    await create(plugin(), claim("c", exactly("r")), user=jane)
    (seen,) = hook.requests
    kind = {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}
    resource = {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
    assert (seen["kind"], seen["requestKind"]) == (kind, kind)
    assert (seen["resource"], seen["requestResource"]) == (resource, resource)
    assert (seen["operation"], seen["namespace"], seen["name"]) == ("CREATE", "default", "c")
    assert seen["userInfo"] == {"username": "jane", "uid": "42", "groups": ["devs"], "extra": {"scopes": ["a"]}}
    assert seen["object"]["kind"] == "ResourceClaim"
    assert seen["object"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
    assert seen["dryRun"] is False
    assert seen["options"] == {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
    assert "oldObject" not in seen


async def test_old_object_of_updates_and_deletions(hook: Hook, plugin: Make) -> None:
    one = plugin()
    await update(one, pod("p"), pod("p", node="n1"), subresource="status")
    await delete(one, pod("p"))
    updated, deleted = hook.requests
    assert updated["subResource"] == "status"
    assert "nodeName" not in updated["oldObject"]["spec"]
    assert updated["object"]["spec"]["nodeName"] == "n1"
    assert deleted["oldObject"]["metadata"]["name"] == "p"
    assert "object" not in deleted


async def test_object_is_sent_in_the_version_that_the_rule_names(hook: Hook, plugin: Make) -> None:
    rule = {**RULE, "apiVersions": ["v1beta1"]}
    await create(plugin(rules=[rule]), claim("c", exactly("r")), version="v1beta2")
    (seen,) = hook.requests
    assert seen["kind"]["version"] == "v1beta1"
    assert seen["requestKind"]["version"] == "v1beta2"
    assert seen["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert seen["object"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
    await create(plugin(rules=[rule], matchPolicy="Exact"), claim("c", exactly("r")))
    assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        ({"message": "no such mode"}, BadRequest, ": no such mode"),
        ({"message": "no", "code": 403}, Forbidden, ": no"),
        ({"reason": "Busy", "code": 409}, Conflict, ": Busy"),
        ({"message": "bad", "code": 422}, Unprocessable, ": bad"),
        ({"message": "oops", "code": 503}, InternalError, ": oops"),
        ({"message": "odd", "code": 200}, BadRequest, ": odd"),
        (None, BadRequest, " without explanation"),
    ],
)
async def test_denial(hook: Hook, plugin: Make, status: Tree | None, kind: type[ApiError], text: str) -> None:
    hook.answer = lambda request: {"allowed": False, "status": status}
    error = await refusal(create(plugin(), pod("p")))
    assert type(error) is kind
    assert error.message == f'admission webhook "check.example.com" denied the request{text}'


async def test_warnings_are_passed_on(hook: Hook, plugin: Make) -> None:
    hook.answer = lambda request: {"allowed": True, "warnings": ["mode x is old", "y" * 300]}
    asked = await create(plugin(), pod("p"))
    assert asked.warnings == ["mode x is old", "y" * 256]


BROKEN: list[tuple[Answer, str]] = [
    (lambda request: web.Response(status=500), "the server answered 500"),
    (lambda request: web.Response(status=302, headers={"Location": "/check"}), "the server answered 302"),
    (lambda request: web.Response(text="hello"), "no AdmissionReview"),
    (lambda request: web.json_response({}), "expected an AdmissionReview"),
    (lambda request: {"uid": "another", "allowed": True}, "expected response.uid="),
    (lambda request: {"allowed": "yes"}, "no AdmissionReview"),
    (lambda request: web.Response(body=b" " * (1 << 21)), "larger than"),
]


@pytest.mark.parametrize(("answer", "text"), BROKEN)
async def test_broken_webhook_fails_closed_or_open(hook: Hook, plugin: Make, answer: Answer, text: str) -> None:
    hook.answer = answer
    error = await refusal(create(plugin(), pod("p")))
    assert error.code == 500
    assert error.message.startswith('Internal error occurred: failed calling webhook "check.example.com": ')
    assert text in error.message
    asked = await create(plugin(failurePolicy="Ignore"), pod("p"))
    assert text in asked.warnings[0]


async def test_slow_webhook_is_given_up(hook: Hook, plugin: Make) -> None:
    hook.wait = 600
    error = await refusal(within(create(plugin(timeoutSeconds=1), pod("p"))))
    assert "no answer within 1s" in error.message


async def test_server_of_another_authority_is_not_believed(hook: Hook, plugin: Make, tmp_path: Path) -> None:
    foreign = base64.b64encode(Keys.open(tmp_path).authority).decode()
    error = await refusal(create(plugin(clientConfig={"url": hook.url, "caBundle": foreign}), pod("p")))
    assert "certificate verify failed" in error.message
    assert hook.requests == []


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"service": {"namespace": "ns", "name": "hook"}}, 'service "hook" not found'),
        ({"url": "https://127.0.0.1:1/check"}, "Connect call failed"),
        ({"url": "https://127.0.0.1:1/check", "caBundle": "bm8="}, "the CA bundle cannot be read"),
    ],
)
async def test_webhook_that_cannot_be_reached(plugin: Make, config: Tree, text: str) -> None:
    message = (await refusal(create(plugin(clientConfig=config), pod("p")))).message
    assert text in message
    assert "object at 0x" not in message


async def test_all_webhooks_are_asked_at_once_and_one_denial_is_enough(hook: Hook, plugin: Make) -> None:
    hook.together = asyncio.Barrier(5)
    hook.answer = lambda request: {"allowed": request is not hook.requests[-1]}
    one = plugin(*(hook.configuration(f"more{number}.example.com") for number in range(4)))
    await refusal(create(one, pod("p")))
    assert len(hook.requests) == 5


@pytest.mark.parametrize(
    ("effects", "called"), [("None", True), ("NoneOnDryRun", True), ("Some", False), (None, False)]
)
async def test_dry_run_needs_a_webhook_without_side_effects(
    hook: Hook, plugin: Make, effects: str | None, called: bool
) -> None:
    attempt = create(plugin(sideEffects=effects), pod("p"), dry_run=True)
    if called:
        await attempt
        assert hook.requests[0]["dryRun"] is True
        return
    error = await refusal(attempt)
    assert error.message == 'admission webhook "check.example.com" does not support dry run'


@pytest.mark.parametrize(
    ("change", "matched"),
    [
        ({}, True),
        ({"operations": ["UPDATE"]}, False),
        ({"operations": ["CREATE", "UPDATE"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiGroups": ["resource.k8s.io"]}, True),
        ({"apiVersions": ["v1"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["resourceclaims"]}, True),
        ({"resources": ["*"]}, True),
        ({"resources": ["resourceclaims/*"]}, True),
        ({"resources": ["resourceclaims/status"]}, False),
        ({"resources": ["pods"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "*"}, True),
    ],
)
async def test_rules(hook: Hook, plugin: Make, change: Tree, matched: bool) -> None:
    await create(plugin(rules=[{**RULE, **change}]), claim("c", exactly("r")))
    assert bool(hook.requests) is matched


async def test_rules_of_subresources(hook: Hook, plugin: Make) -> None:
    for resources, matched in ((["pods"], False), (["*"], False), (["pods/status"], True), (["*/status"], True)):
        hook.requests.clear()
        await update(plugin(rules=[{**RULE, "resources": resources}]), pod("p"), pod("p"), subresource="status")
        assert bool(hook.requests) is matched


SELECTOR = {"matchLabels": {"team": "a"}}


async def test_namespace_selector(hook: Hook, plugin: Make) -> None:
    ours, theirs = namespace("ours", labels={"team": "a"}), namespace("theirs")
    one = plugin(ours, theirs, namespaceSelector=SELECTOR)
    await create(one, pod("p", "theirs"))
    await create(one, theirs)
    assert hook.requests == []
    await create(one, pod("p", "ours"))
    await create(one, ours)
    await create(one, slice_("s"))
    assert [seen["resource"]["resource"] for seen in hook.requests] == ["pods", "namespaces", "resourceslices"]


async def test_object_selector_sees_both_states(hook: Hook, plugin: Make) -> None:
    one = plugin(objectSelector=SELECTOR)
    plain, labelled = pod("p"), pod("p")
    labelled["metadata"]["labels"] = {"team": "a"}
    await create(one, plain)
    assert hook.requests == []
    await create(one, labelled)
    await update(one, labelled, plain)
    assert len(hook.requests) == 2


async def test_broken_webhook_can_be_removed(hook: Hook, plugin: Make) -> None:
    one, configuration = plugin(clientConfig={"url": "https://127.0.0.1:1/"}), hook.configuration()
    await update(one, configuration, configuration)
    await delete(one, configuration)


JANE = User("jane")


def conditions(*expressions: str) -> list[Tree]:
    return [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]


async def test_a_webhook_is_called_where_all_conditions_hold(hook: Hook, plugin: Make) -> None:
    one = plugin(
        matchConditions=conditions(
            "request.userInfo.username == 'jane'",
            "oldObject == null",
            "object.metadata.name.startsWith('new')",
        )
    )
    await create(one, pod("new-one"))
    await create(one, pod("old"), user=JANE)
    await update(one, pod("new-one"), pod("new-one"), user=JANE)
    assert hook.requests == []
    await create(one, pod("new-one"), user=JANE)
    assert [seen["name"] for seen in hook.requests] == ["new-one"]


async def test_conditions_see_the_version_that_the_rule_names(hook: Hook, plugin: Make) -> None:
    rule = {**RULE, "apiVersions": ["v1beta1"]}
    flat = "object.spec.devices.requests[0].deviceClassName == 'gpu' && request.requestKind.version == 'v1beta2'"
    one = plugin(rules=[rule], matchConditions=conditions(flat))
    await create(one, claim("c", exactly("r")), version="v1beta2")
    assert len(hook.requests) == 1


async def test_conditions_ask_for_rights(hook: Hook, plugin: Make) -> None:
    allowed = role("skipper", rule("skip", "pods"), namespace="default")
    given = binding("b", "skipper", user_subject("jane"), namespace="default")
    check = "!authorizer.group('').resource('pods').namespace('default').check('skip').allowed()"
    one = plugin(allowed, given, matchConditions=conditions(check))
    await create(one, pod("p"), user=JANE)
    assert hook.requests == []
    await create(one, pod("p"), user=User("joe"))
    assert len(hook.requests) == 1


async def test_conditions_that_fail_refuse_or_leave_the_webhook_out(hook: Hook, plugin: Make) -> None:
    failing = "object.spec.nope == 1"
    text = f"expression '{failing}' resulted in error: no such key: nope"
    error = await refusal(create(plugin(matchConditions=conditions("true", failing)), pod("p")))
    assert (error.code, error.message) == (403, f'pods "p" is forbidden: {text}')
    error = await refusal(create(plugin(matchConditions=conditions(failing, failing)), pod("p")))
    assert error.message.endswith(f": [{text}, {text}]")
    await create(plugin(matchConditions=conditions(failing, "false")), pod("p"))
    asked = await create(plugin(matchConditions=conditions(failing), failurePolicy="Ignore"), pod("p"))
    assert (hook.requests, asked.warnings) == ([], [])


async def test_conditions_that_cost_too_much_fail(plugin: Make) -> None:
    dear = "authorizer.path('/version').check('get').reason() != 'x'"  # Kubernetes charges much for asking
    await create(plugin(matchConditions=conditions(*[dear] * 7)), pod("p"))
    error = await refusal(create(plugin(matchConditions=conditions(*[dear] * 8)), pod("p")))
    assert "running out of cost budget" in error.message


async def test_conditions_that_take_long_do_not_hold_the_event_loop(hook: Hook, plugin: Make) -> None:
    numbers = f"{list(range(40))}"
    slow = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    one = plugin(matchConditions=conditions(f"{slow} && object.metadata.name == 'asked'"))
    began = time.thread_time()
    await create(one, pod("asked"))
    await create(one, pod("other"))
    assert time.thread_time() - began < 0.2
    assert [seen["name"] for seen in hook.requests] == ["asked"]


async def test_conditions_are_not_asked_where_rules_do_not_match(hook: Hook, plugin: Make) -> None:
    rule = {**RULE, "resources": ["pods"]}
    await create(plugin(rules=[rule], matchConditions=conditions("object.spec.nope == 1")), claim("c", exactly("r")))
    assert hook.requests == []


async def test_new_configuration_counts_at_once(hook: Hook) -> None:
    objects = Objects()
    one = asking(objects)
    await Chain([one]).validate(about("CREATE", pod("p")))
    objects.put(hook.configuration())
    await Chain([one]).validate(about("CREATE", pod("p")))
    assert len(hook.requests) == 1
    await one.aclose()
