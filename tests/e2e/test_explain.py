"""What explain says of pods that wait, read from the API, is what their conditions say."""

from __future__ import annotations

from typing import Any

from dray.api.reasons import wording
from dray.api.reasons.nodes import NodeReason, NodeVerdict, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.inspect.explain import explain_pod
from dray.inspect.reading import NAMESPACES, fetch
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, pod, request

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {"app": "x"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": LABELS},
    "nodeAffinityPolicy": "Ignore",
}
AWAY = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
WAITING: dict[str, dict[str, Any]] = {
    "nowhere": {"nodeSelector": {"zone": "c"}},
    "large": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900"}}}]},
    "spread": {"topologySpreadConstraints": [SPREAD], "nodeSelector": {"zone": "a"}, "labels": LABELS},
    "apart": {"affinity": {"podAntiAffinity": {REQUIRED: [AWAY]}}},
    "greedy": {"claims": ["all"]},
    "elsewhere": {"claims": ["mine"], "nodeSelector": {"kubernetes.io/hostname": "node-1"}},
}


def first_rule(verdict: NodeVerdict) -> list[NodeReason]:
    return [reason for reason in verdict.reasons if reason.rule is verdict.reasons[0].rule]


async def explained(c: Cluster, name: str) -> str:
    """The text that the scheduler would write by what explain found, without what helps."""
    found = explain_pod(await fetch(c.client, "default", NAMESPACES), "default", name)
    reasons: dict[NodeReason, int] = {}
    for number, verdict in enumerate(found.nodes):
        for reason in first_rule(verdict):
            reasons[reason] = reasons.get(reason, 0) | 1 << number
    return wording.unschedulable(Unschedulable(len(found.nodes), reasons))


async def test_explain_reads_from_the_api_what_the_scheduler_said() -> None:
    async with cluster(nodes=3, devices=2, parts=(NODES, CONTROLLERS)) as c:
        for name, zone in (("node-0", "a"), ("node-1", "b"), ("node-2", "b")):
            await c.client.patch(Node, name, {"metadata": {"labels": {"zone": zone}}})
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("mine"), claim("all", request(count=3)))
        for number in range(3):
            home = {"kubernetes.io/hostname": f"node-{number}"}
            await c.create(Pod, pod(f"q{number}", labels=LABELS, nodeSelector=home, claims=[] if number else ["mine"]))
        await c.runs("q0", "q1", "q2")
        await c.create(Pod, pod("q3", labels=LABELS, nodeSelector={"zone": "a"}))
        await c.runs("q3")
        for name, spec in WAITING.items():
            await c.create(Pod, pod(name, **spec))
        for name in WAITING:
            assert (await c.waits(name)).startswith(await explained(c, name)), name
