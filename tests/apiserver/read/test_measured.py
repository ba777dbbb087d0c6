"""What nodes and pods use, made of two looks at what nodes tell."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import NotFound, NotImplementedYet, ServiceUnavailable
from dray.api.resources import BY_NAME
from dray.apiserver.read import measured
from dray.apiserver.read.measured import Measured, read_look
from tests.apiserver.asking import PODS, Asker, pod

pytestmark = pytest.mark.local_store  # time stands still, which an etcd cannot bear

NODES = BY_NAME["", "nodes"]
NODE_METRICS, POD_METRICS = BY_NAME["metrics.k8s.io", "nodes"], BY_NAME["metrics.k8s.io", "pods"]
TEXT = """# TYPE node_cpu_usage_seconds_total gauge
node_cpu_usage_seconds_total {node}
node_memory_working_set_bytes 2048
container_cpu_usage_seconds_total{{container="c",namespace="ns",pod="p"}} {container}
container_memory_working_set_bytes{{container="c",namespace="ns",pod="p"}} 1024
container_start_time_seconds{{container="c",namespace="ns",pod="p"}} {since}
"""


class Told:
    """Nodes that have computed for another second at each look; the time passes by as much as is said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.looks, self.since = 1000.0, 0, 10.0
        self.silent: set[str] = set()
        monkeypatch.setattr(measured.time, "time", lambda: self.now)
        monkeypatch.setattr(measured.asyncio, "sleep", self._sleep)
        self._seconds = seconds

    async def _sleep(self, seconds: float) -> None:
        self.now += self._seconds if seconds else 0.0

    async def __call__(self, node: str, path: str) -> str:
        if node in self.silent:
            raise ServiceUnavailable("no answer")
        self.looks += 1
        return TEXT.format(node=100 + self.looks, container=5 + self.looks / 2, since=self.since)


async def with_pod(ask: Asker, told: Told) -> None:
    port = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    await ask.create(NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}, "status": port})
    await ask.create(NODES, {"metadata": {"name": "simulated"}})
    tree = pod("p", node="n")
    tree["spec"]["containers"][0]["name"] = "c"
    await ask.create(PODS, tree)
    ask.server.measured = Measured(ask.server.storage, told)


async def listed(ask: Asker, resource: Any, **options: Any) -> list[Any]:
    answer = await ask("list", resource, **options)
    assert answer.tree is not None
    return list(answer.tree["items"])


async def test_rates_are_those_between_two_looks(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_pod(ask, Told(monkeypatch, seconds=2.0))
    [node] = await listed(ask, NODE_METRICS)
    assert (node["metadata"]["name"], node["usage"]) == ("n", {"cpu": "500000000n", "memory": "2Ki"})
    assert node["window"] == "2.000s"
    [one] = await listed(ask, POD_METRICS)
    assert one["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "1Ki"}}]


async def test_a_later_question_looks_once_and_one_at_once_not_at_all(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(monkeypatch, seconds=1.0)
    await with_pod(ask, told)
    await listed(ask, NODE_METRICS)
    await listed(ask, NODE_METRICS)
    assert told.looks == 2
    told.now += 20
    [node] = await listed(ask, NODE_METRICS)
    assert (told.looks, node["window"]) == (3, "21.000s")
    told.now += 5
    [node] = await listed(ask, NODE_METRICS)
    assert node["window"] == "5.000s"  # the first look is too old by now


async def test_a_container_that_has_just_begun_is_measured_since_then(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(monkeypatch, seconds=4.0)
    told.since = 1002.0
    await with_pod(ask, told)
    [one] = await listed(ask, POD_METRICS)
    assert one["containers"][0]["usage"]["cpu"] == f"{6 * 10**9 // 2}n"


async def test_selectors_and_names_choose(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_pod(ask, Told(monkeypatch, seconds=1.0))
    assert len(await listed(ask, NODE_METRICS, label_selector="a=b")) == 1
    assert await listed(ask, NODE_METRICS, label_selector="a=c") == []
    assert (await ask("get", POD_METRICS, "p")).tree["metadata"]["namespace"] == "ns"  # type: ignore[index]  # it is there
    for resource in (NODE_METRICS, POD_METRICS):
        with pytest.raises(NotFound):
            await ask("get", resource, "simulated")


async def test_a_node_that_does_not_answer_is_left_out(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, seconds=1.0)
    await with_pod(ask, told)
    told.silent = {"n"}
    assert await listed(ask, NODE_METRICS) == await listed(ask, POD_METRICS) == []


async def test_a_server_without_a_way_to_nodes_says_so(ask: Asker) -> None:
    with pytest.raises(NotImplementedYet, match="no connection to nodes"):
        await ask("list", NODE_METRICS)


@pytest.mark.parametrize("text", ["", "no metrics {", 'x{a="b} 1', "node_cpu_usage_seconds_total many"])
def test_a_text_that_is_none_tells_nothing(text: str) -> None:
    look = read_look(text, 5.0)
    assert (look.node.cpu, look.containers) == (0.0, {})
