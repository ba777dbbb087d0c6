"""Shadow mode beside dray's own scheduler and beside a worse one: what is the same, what differs and why, and no write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.users import AUTHENTICATED, User
from dray.client import InProcess
from dray.client.readiness import Readiness
from dray.core.configuration import Configuration, read
from dray.replay import shadow_report
from dray.scheduler.shadow import ShadowReport, ShadowResult, ShadowScheduler
from tests.deploy.roles import role
from tests.e2e.cluster import NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import interposed
from tests.e2e.objects import claim, pod
from tests.e2e.test_waiting import hard_to_pack
from tests.permissions import allow, without
from tests.waiting import eventually, within

READS = role("shadow")
WORSE: Configuration = read(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}],
    }
)


@asynccontextmanager
async def shadowing(c: Cluster) -> AsyncIterator[ShadowScheduler]:
    """A shadow that may read and nothing else; a write, were it allowed or not, fails the test."""
    writes: list[Any] = []

    async def hook(*call: Any) -> None:
        writes.append(call)

    await allow(c.client, "shadow", *READS)
    client = InProcess(c.running.api, User("shadow", groups=(AUTHENTICATED,)))
    readiness = Readiness()
    shadow = ShadowScheduler(interposed(client, hook), c.gates, readiness=readiness)
    task = asyncio.create_task(shadow.run())
    await within(readiness.started())
    try:
        yield shadow
        assert not task.done()
        assert readiness.problems == []
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert writes == []


def _counts(report: ShadowReport) -> dict[str, int]:
    return {result: count for result, count in report.results.items() if count}


async def compared(shadow: ShadowScheduler, count: int) -> ShadowReport:
    await eventually(lambda: sum(shadow.report().results.values()) >= count)
    return shadow.report()


def cpu(quantity: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": quantity}}
    return {"containers": [{"name": "main", "image": "app", "resources": resources}]}


async def test_beside_the_same_scheduler_nearly_every_pod_gets_the_same_node_and_no_claim_is_touched() -> None:
    async with cluster(nodes=3, devices=2, parts=(NODES, SCHEDULER)) as c, shadowing(c) as shadow:
        names = [f"p{number}" for number in range(5)]
        for name in names:
            await c.create(ResourceClaim, claim(name))
            await c.create(Pod, pod(name, claims=[name], **cpu("2")))
            await c.runs(name)
        report = await compared(shadow, 5)
        assert {*_counts(report)} <= {"same", "tie"}
        assert len(report.our_seconds) == 5
        assert len(report.their_seconds) == 5
        allocated = [(await c.claim(name)).status.allocation for name in names]
        assert all(allocated)


async def test_a_worse_choice_is_found_and_the_score_that_made_the_difference_is_named() -> None:
    async with cluster(nodes=3, devices=2, parts=(NODES,)) as c, shadowing(c) as shadow:
        c.configurations[SCHEDULER] = WORSE
        await c.start(SCHEDULER)
        for number in range(4):
            await c.create(ResourceClaim, claim(f"p{number}"))
            await c.create(Pod, pod(f"p{number}", claims=[f"p{number}"], **cpu("8")))
            await c.runs(f"p{number}")
        report = await compared(shadow, 4)
        worse = [one for one in report.pods if one.result is ShadowResult.DIFFERENT]
        assert worse, _counts(report)
        for one in worse:
            assert one.decisive == "NodeResourcesFit"
            assert one.ours != one.theirs == (await c.pod(one.pod.removeprefix("default/"))).spec.nodeName
            [score] = [score for score in one.scores if score.score == "NodeResourcesFit"]
            assert score.ours > score.theirs
        text = shadow_report.text_of(report)
        assert "the score that made the difference:" in text
        assert shadow_report.pod_line(worse[0]) in text
        assert worse[0].pod in shadow_report.page_of(report)
        assert shadow_report.tree_of(report)["results"]["different"] == len(worse)


async def test_a_node_that_the_rules_refuse_is_told_with_the_rule() -> None:
    async with cluster(nodes=2, parts=(NODES,)) as c, shadowing(c) as shadow:
        await c.client.patch(Node, "node-0", {"spec": {"unschedulable": True}})
        await c.create(Pod, pod("p", schedulerName="other"))
        await bind(c, "p", "node-0")
        [one] = (await compared(shadow, 1)).pods
        assert (one.result, one.ours, one.theirs) == (ShadowResult.REFUSED, "node-1", "node-0")
        assert one.why == "node(s) were unschedulable"


async def test_a_search_that_takes_long_is_given_up_instead_of_keeping_the_shadow_from_the_others() -> None:
    async with cluster(nodes=1, devices=0, parts=(NODES,)) as c, shadowing(c) as shadow:
        claims = await hard_to_pack(c)
        await c.create(Pod, pod("hard", claims=claims, schedulerName="other"))
        await bind(c, "hard", "node-0")
        await c.create(Pod, pod("easy", schedulerName="other"))
        await bind(c, "easy", "node-0")
        report = await compared(shadow, 2)
        assert _counts(report) == {"undecided": 1, "same": 1}
        [one] = report.pods
        assert (one.pod, one.result) == ("default/hard", ShadowResult.UNDECIDED)
        assert one.our_seconds < 5  # a tenth of a second on a machine at rest; the scheduler has ten
        assert "dray would search for longer" in shadow_report.text_of(report)


async def bind(c: Cluster, name: str, node: str) -> None:
    """Do as another scheduler does."""
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    body = {"metadata": {"name": name, "namespace": "default"}, **target}
    await c.client.create(Pod, body, namespace="default", name=name, subresource="binding")


async def test_a_pod_that_the_other_scheduler_gave_up_is_told_once_if_dray_has_a_node_for_it() -> None:
    async with cluster(nodes=1, devices=2, parts=(NODES,)) as c, shadowing(c) as shadow:
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("fits", claims=["c"], schedulerName="other"))
        await c.create(Pod, pod("never", schedulerName="other", nodeSelector={"no": "where"}))
        for name in ("never", "fits", "fits"):
            current = await c.pod(name)
            text = f"gave up {current.metadata.resourceVersion}"
            told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
            await c.client.patch(Pod, name, {"status": {"conditions": [told]}}, "default", subresource="status")
        [one] = (await compared(shadow, 1)).pods
        assert (one.pod, one.result, one.ours) == ("default/fits", ShadowResult.ONLY_OURS, "node-0")
        assert one.why.startswith("gave up")
        assert (await c.claim("c")).status.allocation is None


async def test_a_shadow_without_a_permission_says_which_it_lacks() -> None:
    async with cluster(nodes=1, parts=(NODES,)) as c:
        await allow(c.client, "blind", *without(READS, "pods"))
        client = InProcess(c.running.api, User("blind", groups=(AUTHENTICATED,)))
        readiness = Readiness()
        task = asyncio.create_task(ShadowScheduler(client, FeatureGates(), readiness=readiness).run())

        def problems() -> str:
            return "\n".join(readiness.problems)

        await eventually(lambda: 'cannot list resource "pods"' in problems())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        c.audit.findings.clear()  # the errors that were logged


async def test_pods_that_had_a_node_before_are_not_compared() -> None:
    async with cluster(nodes=1, parts=(NODES, SCHEDULER)) as c:
        await c.create(Pod, pod("early"))
        await c.runs("early")
        async with shadowing(c) as shadow:
            await c.create(Pod, pod("late"))
            await c.runs("late")
            report = await compared(shadow, 1)
            assert _counts(report) == {"same": 1}
