"""`dray autoscale simulate` on files and `dray autoscale plan` on a real cluster, which it leaves as it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.types.core import Node, Pod
from dray.cli import main
from dray.client.config import load
from dray.client.http import Http
from tests.cli.clusters import Cluster, cluster, furnish
from tests.sim.test_cluster import machines, pod, template


def write(file: Path, *trees: Any) -> str:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    return str(file)


@pytest.fixture
def groups(tmp_path: Path) -> str:
    file = tmp_path / "groups.yaml"
    chips = [{"name": f"gpu-{number}"} for number in range(2)]
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "20"}
    pools = [{"driver": "gpu.example.com", "devices": chips}]
    made = {"name": "gpus", "max": 5, "price": 3, "template": {"capacity": capacity, "pools": pools}}
    file.write_text(yaml.safe_dump({"groups": [made]}))
    return str(file)


def test_a_manifest_gets_nodes_beside_those_of_a_recording(
    tmp_path: Path, groups: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = write(tmp_path / "there.json", *machines(1), template(2), pod("old", 2))
    recording = str(tmp_path / "recording.json.gz")
    assert main(["record", "-f", there, "-o", recording]) == 0
    manifest = write(tmp_path / "manifest.json", pod("new", 2))
    capsys.readouterr()
    words = ["autoscale", "simulate", "--groups", groups, "--recording", recording, "-f", manifest, "-o", "json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["increases"], found["price"], found["proven"], found["lowerBound"]) == ({"gpus": 1}, 3, True, 3)
    assert [one["pod"] for node in found["nodes"] for one in node["pods"]] == ["default/new"]


def test_pods_without_help_are_told_group_by_group_and_the_status_is_1(
    tmp_path: Path, groups: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = write(tmp_path / "manifest.json", machines(0)[0], template(3), pod("greedy", 3))
    assert main(["autoscale", "simulate", "--groups", groups, "-f", manifest, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["unhelped"][0]["pods"] == ["default/greedy"]
    assert [why["code"] for why in found["unhelped"][0]["groups"]] == ["group-refused"]
    assert found["uselessGroups"] == ["gpus"]


@pytest.mark.wording
def test_people_read_why(tmp_path: Path, groups: str, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = write(
        tmp_path / "manifest.json", machines(0)[0], template(3), template(1), pod("a", 1), pod("greedy", 3)
    )
    assert main(["autoscale", "simulate", "--groups", groups, "-f", manifest]) == 1
    said = capsys.readouterr().out
    assert "add 1 node for 1 pod: 3.00 an hour" in said
    assert "this is the cheapest set of nodes for these pods: lower bound 3.00" in said
    assert "pod default/greedy stays without a node" in said
    assert "request gpus needs 3 devices: 2 published" in said


def test_a_cluster_is_planned_for_and_left_as_it_is(
    tmp_path: Path, groups: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def contents(running: Cluster) -> list[Any]:
        async with Http(load(str(running.admin))) as client:
            return [(await client.list(type_)).items for type_ in (Node, Pod)]

    with cluster(tmp_path) as running:
        asyncio.run(furnish(running))
        before = asyncio.run(contents(running))
        code = main(["autoscale", "plan", "--groups", groups, "--kubeconfig", str(running.admin), "-o", "json"])
        assert asyncio.run(contents(running)) == before
    found = json.loads(capsys.readouterr().out)
    waiting = [one.metadata.name for one in before[1] if not one.spec.nodeName]
    named = [one for node in found["nodes"] for one in node["pods"]] + [p for u in found["unhelped"] for p in u["pods"]]
    assert len(named) == len(waiting)
    assert code == (1 if found["unhelped"] else 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("groups: []", "expected at least one group"),
        ("groups: [{name: a, max: 1, profile: cpu, min: 2}]", "min 2 is larger than max 1"),
        ("groups: [{name: a, max: 1, profile: cpu, cost: 2}]", "groups[0].cost: expected one of name, max"),
    ],
)
def test_groups_that_cannot_be_used_are_told_with_their_file(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    assert main(["autoscale", "simulate", "--groups", str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert message in said


def test_a_file_that_is_not_there_and_an_odd_price_are_told(
    tmp_path: Path, groups: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["autoscale", "simulate", "--groups", str(tmp_path / "nothing.yaml")]) == 2
    assert main(["autoscale", "simulate", "--groups", groups, "--alternative-price", "-1"]) == 2
    assert "expected a number from 0" in capsys.readouterr().err
