"""RuntimeClasses: what pods get from theirs, and which pods are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Forbidden
from dray.apiserver.admission.runtime_classes import RuntimeClassAdmission, merged_tolerations
from dray.background.turns import turns
from tests.apiserver.admission.writing import create, update
from tests.apiserver.reading import Objects, pod

GPU = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


def runtime_class(**fields: Any) -> dict[str, Any]:
    tree = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}, "handler": "runc"}
    return {**tree, **fields}


async def made(class_: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The spec of a new pod of the class."""
    tree = pod("p", runtimeClassName="r", **spec)
    await create(RuntimeClassAdmission(Objects(class_)), tree)
    found: dict[str, Any] = tree["spec"]
    return found


async def test_a_class_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Forbidden, match='pods "p" is forbidden: pod rejected: RuntimeClass "x" not found'):
        await create(RuntimeClassAdmission(Objects(runtime_class())), pod("p", runtimeClassName="x"))


async def test_pods_that_exist_may_go_on_without_their_class() -> None:
    old = pod("p", runtimeClassName="x")
    await update(RuntimeClassAdmission(Objects()), old, old)


async def test_a_class_that_says_nothing_adds_nothing() -> None:
    assert await made(runtime_class()) == pod("p", runtimeClassName="r")["spec"]


async def test_a_pod_gets_overhead_selector_and_tolerations() -> None:
    class_ = runtime_class(
        overhead={"podFixed": {"memory": "1Gi"}}, scheduling={"nodeSelector": {"kvm": "yes"}, "tolerations": [GPU]}
    )
    spec = await made(class_, nodeSelector={"zone": "a"}, tolerations=[{"key": "own", "operator": "Exists"}])
    assert spec["overhead"] == {"memory": "1Gi"}
    assert spec["nodeSelector"] == {"zone": "a", "kvm": "yes"}
    assert spec["tolerations"] == [{"key": "own", "operator": "Exists"}, GPU]


async def test_the_same_overhead_in_other_words_is_no_other() -> None:
    spec = await made(runtime_class(overhead={"podFixed": {"memory": "1Gi"}}), overhead={"memory": "1024Mi"})
    assert spec["overhead"] == {"memory": "1024Mi"}


@pytest.mark.parametrize(
    ("class_", "spec", "text"),
    [
        (
            {"overhead": {"podFixed": {"cpu": "1"}}},
            {"overhead": {"cpu": "2"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {},
            {"overhead": {"cpu": "2"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"scheduling": {"nodeSelector": {"zone": "a"}}},
            {"nodeSelector": {"zone": "b"}},
            r"conflict: runtimeClass.scheduling.nodeSelector\[zone\] = a; pod.spec.nodeSelector\[zone\] = b",
        ),
    ],
)
async def test_what_contradicts_the_class_is_refused(class_: dict[str, Any], spec: dict[str, Any], text: str) -> None:
    with pytest.raises(Forbidden, match=text):
        await made(runtime_class(**class_), **spec)


async def test_overhead_without_a_class_is_refused() -> None:
    with pytest.raises(Forbidden, match="Pod Overhead set without corresponding RuntimeClass"):
        await create(RuntimeClassAdmission(Objects()), pod("p", overhead={"cpu": "1"}))


FOR_A_MINUTE = {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
VALUE = {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "kept"),
    [
        ([GPU, GPU], [GPU]),
        ([VALUE, GPU], [GPU]),
        ([GPU, VALUE], [GPU]),
        ([GPU, {"operator": "Exists"}], [{"operator": "Exists"}]),
        ([VALUE, {**VALUE, "value": "b"}], [VALUE, {**VALUE, "value": "b"}]),
        ([FOR_A_MINUTE, {**FOR_A_MINUTE, "tolerationSeconds": 5}], [FOR_A_MINUTE]),
        (
            [FOR_A_MINUTE, {**FOR_A_MINUTE, "tolerationSeconds": None}],
            [{**FOR_A_MINUTE, "tolerationSeconds": None}],
        ),
        ([GPU, FOR_A_MINUTE], [GPU, FOR_A_MINUTE]),
    ],
)
async def test_tolerations_that_another_one_covers_are_left_out(
    tolerations: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> None:
    assert await turns().run("u", merged_tolerations(tolerations)) == kept


async def test_others_have_their_turns_while_many_tolerations_are_merged() -> None:
    own = [{"key": f"k{number}", "operator": "Exists"} for number in range(800)]
    merging = asyncio.create_task(made(runtime_class(scheduling={"tolerations": [GPU]}), tolerations=own))
    others = 0
    while not merging.done():
        await asyncio.sleep(0)
        others += 1
    assert (await merging)["tolerations"] == [*own, GPU]
    assert others > 5
