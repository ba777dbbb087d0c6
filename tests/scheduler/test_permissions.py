"""The scheduler with fewer permissions than it needs: what it reports, and what it does all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PriorityClass
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess
from dray.client.readiness import Readiness
from dray.scheduler import Scheduler
from dray.sim.hardware import node_tree
from tests.e2e.objects import pod
from tests.permissions import READ, allow, rule, user_client, without
from tests.waiting import eventually

RULES = [
    rule("", "pods", verbs=(*READ, "delete")),
    rule("", "nodes", "namespaces", verbs=READ),
    rule("", "pods/binding", "events", verbs=("create",)),
    rule("", "pods/status", "events", verbs=("patch",)),
    rule("policy", "poddisruptionbudgets", verbs=READ),
    rule("resource.k8s.io", "deviceclasses", "resourceslices", "devicetaintrules", verbs=READ),
    rule("resource.k8s.io", "resourceclaims", verbs=(*READ, "patch")),
]


@asynccontextmanager
async def scheduling(*rules: Tree) -> AsyncIterator[tuple[Client, Readiness]]:
    """A scheduler with these rights; the administrator's client and what the scheduler says of itself."""
    running = await Running.open(ServerSettings(disabled_plugins=("ServiceAccount",)))
    admin, readiness = InProcess(running.api, ADMIN), Readiness()
    tree = node_tree(0, "2024-01-01T00:00:00Z")
    await admin.create(Node, tree)
    await admin.patch(Node, tree["metadata"]["name"], {"status": tree["status"]}, subresource="status")
    await allow(admin, "s", *rules)
    scheduler = Scheduler(user_client(running, "s"), FeatureGates(), readiness=readiness)
    task = asyncio.create_task(scheduler.run())
    try:
        yield admin, readiness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await running.close()


async def is_placed(client: Client, name: str) -> bool:
    return bool((await client.get(Pod, name, "default")).spec.nodeName)


@pytest.mark.parametrize("resource", ["pods", "nodes", "namespaces", "resourceslices", "resourceclaims"])
async def test_without_a_picture_of_the_cluster_it_is_not_ready_and_says_what_is_missing(resource: str) -> None:
    async with scheduling(*without(RULES, resource, "list", "watch")) as (admin, readiness):

        def problem() -> str:
            return next((text for text in readiness.problems if "cannot list" in text), "")

        assert f'cannot list resource "{resource}"' in await eventually(problem)
        await admin.create(Pod, pod("p"), namespace="default")
        await allow(admin, "s", *RULES)
        await eventually(lambda: is_placed(admin, "p"))
        assert readiness.problems == []


async def test_without_disruption_budgets_it_places_pods_and_preempts_none(caplog: pytest.LogCaptureFixture) -> None:
    async with scheduling(*without(RULES, "poddisruptionbudgets")) as (admin, readiness):
        await admin.create(PriorityClass, {"metadata": {"name": "high"}, "value": 10})
        await admin.create(Pod, pod("low", **_all_of_a_node()), namespace="default")
        await eventually(lambda: is_placed(admin, "low"))
        await admin.create(Pod, pod("high", priorityClassName="high", **_all_of_a_node()), namespace="default")

        async def is_refused() -> bool:
            return bool((await admin.get(Pod, "high", "default")).status.conditions)

        await eventually(is_refused)
        assert (await admin.get(Pod, "low", "default")).metadata.deletionTimestamp is None
        assert readiness.problems == []
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [text for text in said if "budgets are unknown" in text] == [
        "without that permission no pod is preempted, since disruption budgets are unknown"
    ]


def _all_of_a_node() -> Tree:
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "40"}}}]}
