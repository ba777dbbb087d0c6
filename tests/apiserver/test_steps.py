"""The speed of the machine decides how long a client waits, never whether an object is valid."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver import steps
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/slow.example.com/v1/namespaces/default/things"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
NUMBERS = f"{list(range(12))}"
SLOW = f"{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, a + b + c >= 0)))"

SLOW_CLOCKS = """
import time
for name in ("monotonic", "thread_time", "process_time"):
    setattr(time, name, lambda real=getattr(time, name): 300 * real())
"""


@pytest.fixture
async def admin(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HttpAsker]:
    async with serving(Keys.open(tmp_path_factory.mktemp("keys"))) as asker:
        yield asker


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes read clocks as if they computed 300 times slower: this one for the processor, other ones all clocks."""
    real = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: 300 * real())
    (tmp_path / "sitecustomize.py").write_text(SLOW_CLOCKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


def workers() -> Iterator[int]:
    """The processes of this one that compute in the background."""
    for children in Path("/proc/self/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            if b"dray.background.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child


def definition(spec: Tree, rules: list[str]) -> Tree:
    whole = {**spec, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    schema = {"type": "object", "properties": {"spec": whole}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    scope = {"group": "slow.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.slow.example.com"}, "spec": scope}


def selecting(name: str, expression: str) -> Tree:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def thing(name: str, **spec: Any) -> Tree:
    return {"apiVersion": "slow.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def served(admin: HttpAsker, spec: Tree, *rules: str) -> None:
    await created(admin, DEFINITIONS, definition({"type": "object", **spec}, list(rules)))

    async def is_served() -> bool:
        return (await admin.text(THINGS))[0] == 200

    await eventually(is_served)


async def enforced(admin: HttpAsker, *expressions: str) -> None:
    """Bind a policy about config maps, and wait until it refuses one named `probe`."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    checks = [{"expression": one} for one in (*expressions, "object.metadata.name != 'probe'")]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": checks, "failurePolicy": "Fail"}
    await created(admin, f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    await created(admin, f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec})

    async def refuses() -> bool:
        answer = await admin("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "probe"}})
        return "failed expression" in answer[1].get("message", "")

    await eventually(refuses)


@pytest.mark.usefixtures("slow_machine")
async def test_objects_with_slow_schemas_and_rules_are_valid_on_a_slow_machine(admin: HttpAsker) -> None:
    options = [{"pattern": f"^x{number}$"} for number in range(200)]
    numbers = {"type": "array", "maxItems": 30, "items": {"type": "integer"}}
    names = {"type": "array", "items": {"type": "string", "anyOf": options}}
    rule = "!has(self.numbers) || self.numbers.all(a, self.numbers.all(b, a + b >= 0))"
    await served(admin, {"properties": {"names": names, "numbers": numbers}}, rule)
    await created(admin, THINGS, thing("a", names=[f"x{number}" for number in range(200)]))
    await created(admin, THINGS, thing("b", numbers=[*range(30)]))
    assert (await admin("POST", THINGS, thing("c", names=["y"])))[0] == 422
    assert (await admin("POST", THINGS, thing("d", numbers=[*range(29), -1])))[0] == 422


@pytest.mark.usefixtures("slow_machine")
async def test_policies_come_to_the_same_verdict_on_a_slow_machine(admin: HttpAsker) -> None:
    await enforced(admin, f"{SLOW} && object.metadata.name != 'bad'")
    await created(admin, CONFIG_MAPS, {"metadata": {"name": "good"}})
    code, body = await admin("POST", CONFIG_MAPS, {"metadata": {"name": "bad"}})
    assert (code, "failed expression" in body["message"]) == (422, True)


@pytest.mark.usefixtures("slow_machine")
async def test_a_slow_policy_asks_the_authorizer_from_the_other_process(admin: HttpAsker) -> None:
    mine = "authorizer.requestResource.check(object.metadata.name).allowed()"
    pods = "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"
    nobody = "authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('get').allowed()"
    await enforced(admin, f"{SLOW} && {mine} && {pods}", f"!{nobody}")
    await created(admin, CONFIG_MAPS, {"metadata": {"name": "get"}})
    assert [*workers()]


@pytest.mark.usefixtures("slow_machine")
async def test_a_slow_policy_heeds_what_the_authorizer_denies(admin: HttpAsker) -> None:
    nobody = "authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('get').allowed()"
    await enforced(admin, f"{SLOW} && {nobody}")
    code, body = await admin("POST", CONFIG_MAPS, {"metadata": {"name": "get"}})
    assert (code, "failed expression" in body["message"]) == (422, True)


async def test_too_many_steps_are_refused_by_number(admin: HttpAsker) -> None:
    options = [{"maxLength": 1 + number} for number in range(1100)]
    await served(admin, {"properties": {"text": {"type": "string", "anyOf": options}}})
    code, body = await admin("POST", THINGS, thing("long", text="x" * 1_000_000))
    assert (code, "more than 2000000 steps" in body["message"]) == (422, True)
    code, body = await admin("POST", THINGS, thing("short", text="x" * 900_000))
    assert (code, "must validate at least one schema" in body["message"]) == (422, True)
    await created(admin, THINGS, thing("shorter", text="x" * 1000))


@pytest.mark.usefixtures("slow_machine")
async def test_who_waits_for_a_process_that_does_not_answer_is_told_to_try_again(
    admin: HttpAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enforced(admin, SLOW)
    rules = [f"self.size != {number + 7}" for number in range(60)]
    await served(admin, {"properties": {"size": {"type": "integer"}}}, *rules)
    driver = " || ".join(f"device.driver == 'driver-{number}.example.com'" for number in range(40))
    await created(admin, CLASSES, selecting("c", driver))
    asked = [
        (CLASSES, selecting("d", f"{driver} ")),
        (CONFIG_MAPS, {"metadata": {"name": "good"}}),
    ]
    stopped = [*workers()]
    assert len(stopped) == 1
    for worker in stopped:
        os.kill(worker, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(steps, "BACKGROUND_SECONDS", 0.01)
            for path, tree in asked:
                async with admin.send("POST", path, tree) as answer:
                    assert (answer.status, "Retry-After" in answer.headers) == (504, True)
                    assert "try again later" in (await answer.json())["message"]
    finally:
        for worker in stopped:
            os.kill(worker, signal.SIGCONT)
    for path, tree in asked:
        await created(admin, path, tree)
