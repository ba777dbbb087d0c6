"""Pods that differ in their names alone come to the same, whichever way they are created."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from dray.api.errors import AlreadyExists, BadRequest, Forbidden, Invalid
from dray.api.resources import BY_TYPE
from dray.api.types.core import Namespace, Pod, ServiceAccount
from dray.api.types.scheduling import PriorityClass
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.request import Answer, Request, RequestOptions
from dray.apiserver.write import identity, memo
from dray.client import InProcess
from tests import objects

CONTAINER = {"name": "c", "image": "pause"}
DEVICE = {"name": "d", "resourceClaimTemplateName": "t"}
SPECS: dict[str, Tree] = {
    "plain": {"containers": [CONTAINER]},
    "claims": {"containers": [CONTAINER | {"resources": {"claims": [{"name": "d"}]}}], "resourceClaims": [DEVICE]},
    "amounts": {"containers": [CONTAINER | {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": 2}}}]},
    "class": {"containers": [CONTAINER], "priorityClassName": "system-node-critical"},
    "no token": {
        "containers": [CONTAINER],
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
    },
}


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = await Running.open(ServerSettings())
    yield running
    await running.close()


@pytest.fixture
def client(running: Running) -> InProcess:
    return InProcess(running.api, ADMIN)


def pod_of(name: str, spec: Tree = SPECS["plain"], **metadata: Any) -> Tree:
    return objects.pod(name, metadata=metadata, **spec)


async def create(running: Running, tree: Tree, *, tracked: bool = False, **options: Any) -> Pod:
    """Create a pod as an HTTP request does (`tracked`), or one of the cluster's own parts."""
    answer = await answered(running, tree, tracked=tracked, **options)
    assert isinstance(answer.object, Pod)
    return answer.object


async def answered(running: Running, tree: Tree, *, tracked: bool, **options: Any) -> Answer:
    body = msgspec.json.decode(msgspec.json.encode(tree))
    request = Request(
        user=ADMIN,
        verb="create",
        resource=BY_TYPE[Pod],
        namespace="default",
        body=body,
        options=RequestOptions(**options),
        user_agent="test/1",
        tracked=tracked,
    )
    answer = await running.api.handle(request)
    assert isinstance(answer, Answer)
    return answer


def without_identity(made: Pod) -> Tree:
    tree: Tree = msgspec.to_builtins(made)
    for field in ("name", "uid", "creationTimestamp", "resourceVersion"):
        assert tree["metadata"].pop(field)
    for entry in tree["metadata"].get("managedFields", ()):
        assert entry.pop("time")
    return tree


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("metadata", [{}, {"labels": {"a": "b"}, "annotations": {"x": "y"}}, {"generateName": "p-"}])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_the_next_pod_comes_to_what_the_first_came_to(
    running: Running, spec: Tree, metadata: Tree, tracked: bool
) -> None:
    names = ["", ""] if metadata.get("generateName") else ["one", "two"]
    one, two = [await create(running, pod_of(name, spec, **metadata), tracked=tracked) for name in names]
    assert without_identity(one) == without_identity(two)
    assert two.spec is one.spec  # the short way was taken
    assert one.metadata.name != two.metadata.name
    assert one.metadata.uid != two.metadata.uid
    stored = await InProcess(running.api, ADMIN).get(Pod, two.metadata.name, "default")
    assert stored == two


@pytest.mark.parametrize("tracked", [False, True])
async def test_every_pod_that_deserves_a_warning_gets_it(running: Running, tracked: bool) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    spec = {"containers": [CONTAINER | {"restartPolicy": "Never", "restartPolicyRules": [rule]}]}
    told = [(await answered(running, pod_of(name, spec), tracked=tracked)).warnings for name in ("one", "two")]
    assert "RestartAllContainers" in told[0][0]
    assert told[1] == told[0]


async def test_what_differs_in_more_than_names_is_not_taken_for_the_same(running: Running) -> None:
    first = await create(running, pod_of("first"), tracked=True)
    for name, tree, asked in (
        ("labels", pod_of("labels", labels={"a": "b"}), {}),
        ("spec", pod_of("spec", SPECS["claims"]), {}),
        ("generated", pod_of("", generateName="generated-"), {}),
        ("manager", pod_of("manager"), {"field_manager": "somebody"}),
    ):
        made = await create(running, tree, tracked=True, **asked)
        assert without_identity(made) != without_identity(first), name


async def test_what_admission_reads_is_read_again_when_it_changes(running: Running, client: InProcess) -> None:
    assert (await create(running, pod_of("one"))).spec.imagePullSecrets == ()
    await client.patch(ServiceAccount, "default", {"imagePullSecrets": [{"name": "s"}]}, "default")
    assert [secret.name for secret in (await create(running, pod_of("two"))).spec.imagePullSecrets] == ["s"]
    await client.create(PriorityClass, {"metadata": {"name": "most"}, "value": 7, "globalDefault": True})
    assert (await create(running, pod_of("three"))).spec.priority == 7
    await client.delete(ServiceAccount, "default", "default")
    with pytest.raises(Forbidden, match='serviceaccount "default" not found'):
        await create(running, pod_of("four"))


async def test_a_namespace_that_goes_takes_no_more_pods(running: Running, client: InProcess) -> None:
    await create(running, pod_of("one", finalizers=["example.com/stay"]))
    await client.patch(Namespace, "default", {"status": {"phase": "Terminating"}}, subresource="status")
    with pytest.raises(Forbidden, match="being terminated"):
        await create(running, pod_of("two", finalizers=["example.com/stay"]))


async def test_unknown_fields_are_judged_as_each_request_asks(running: Running) -> None:
    await create(running, pod_of("one", {**SPECS["plain"], "unknown": 1}))
    await create(running, pod_of("two", {**SPECS["plain"], "unknown": 1}))
    with pytest.raises(BadRequest, match=r'unknown field "spec\.unknown"'):
        await create(running, pod_of("three", {**SPECS["plain"], "unknown": 1}), field_validation="Strict")


async def test_a_name_that_is_taken_or_wrong_is_refused(running: Running) -> None:
    await create(running, pod_of("one"))
    with pytest.raises(AlreadyExists, match='pods "one" already exists'):
        await create(running, pod_of("one"))
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await create(running, pod_of("Not a name"))


async def test_a_generated_name_that_is_taken_is_not_the_last_word(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(running, pod_of("", generateName="p-"))
    await create(running, pod_of("p-taken"))
    monkeypatch.setattr(memo, "generated", lambda base: f"{base}taken")
    made = await create(running, pod_of("", generateName="p-"))
    assert made.metadata.name.startswith("p-")
    assert made.metadata.name != "p-taken"


async def test_times_of_a_pod_are_its_own(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    gated = pod_of("one", {**SPECS["plain"], "schedulingGates": [{"name": "example.com/wait"}]})
    for second in range(2):
        monkeypatch.setattr(identity, "now", lambda second=second: f"2026-01-01T00:00:0{second}Z")
        gated["metadata"]["name"] = f"p{second}"
        made = await create(running, gated)
        assert made.status.conditions[0].lastTransitionTime == made.metadata.creationTimestamp


async def test_a_dry_run_leaves_nothing(running: Running, client: InProcess) -> None:
    await create(running, pod_of("one"))
    await create(running, pod_of("two"), dry_run=True)
    assert [p.metadata.name for p in (await client.list(Pod, "default")).items] == ["one"]


async def test_what_is_very_long_is_not_remembered(running: Running) -> None:
    long = {"x": "y" * memo._LONGEST}
    one, two = [await create(running, pod_of(name, annotations=long)) for name in ("one", "two")]
    assert without_identity(one) == without_identity(two)
    assert one.spec is not two.spec


async def test_only_so_many_are_known(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "_KEPT", 2)
    first = [await create(running, pod_of(f"a{i}", labels={"n": str(i)})) for i in range(3)]
    again = [await create(running, pod_of(f"b{i}", labels={"n": str(i)})) for i in (2, 1, 0)]
    assert [one.spec is two.spec for one, two in zip(reversed(first), again, strict=True)] == [True, True, False]


@pytest.mark.parametrize("tracked", [False, True])
async def test_the_owners_of_a_pod_are_its_own(running: Running, tracked: bool) -> None:
    """Who manages which field is told by owner, so pods of two owners are alike only where that is not kept."""
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid} for uid in "ab"]
    one, two = [
        await create(running, pod_of(owner["uid"], ownerReferences=[owner]), tracked=tracked) for owner in owners
    ]
    assert [made.metadata.ownerReferences[0].uid for made in (one, two)] == ["a", "b"]
    assert (one.spec is two.spec) is not tracked
    if tracked:
        fields = [msgspec.json.encode(made.metadata.managedFields[0].fieldsV1) for made in (one, two)]
        assert [
            owner["uid"].join(('k:{\\"uid\\":\\"', '\\"}')).encode() in text
            for owner, text in zip(owners, fields, strict=True)
        ] == [True, True]
    for wrong in ({"uid": 1}, {"unknown": "x"}, "text"):
        with pytest.raises((Invalid, BadRequest)):
            await create(running, pod_of("c", ownerReferences=[wrong]), tracked=tracked)
