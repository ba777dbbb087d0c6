"""Profiles: what each brings is what an API server would accept, and claims find what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.api.wire import Tree
from dray.inspect.linting import lint
from dray.sim import profiles
from dray.sim.cluster import Cluster
from dray.sim.demands import demand_of
from dray.sim.what_if import how_many, place
from tests import objects

EXAMPLES = Path(profiles.__file__).parents[2] / "examples" / "profiles"
NOW = "2026-01-01T00:00:00Z"
PARTITION = 'device.attributes["gpu.amd.com"].computePartition'
GATES = FeatureGates.parse("AllBeta=true,AllAlpha=true")


def claim_for(*requests: Tree, same: str = "") -> Tree:
    constraints = {"constraints": [{"matchAttribute": same}]} if same else {}
    return objects.claim("c", *requests, namespace="default", **constraints)


def request(class_: str, name: str = "r", expression: str = "", **more: Any) -> Tree:
    return objects.request(name, class_, selectors=[expression] if expression else (), **more)


def mig(profile: str) -> str:
    return f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'


def copies(line: str, asked: Tree) -> int:
    cluster = Cluster(profiles.objects_of(line, NOW), gates=GATES)
    return how_many(cluster, demand_of([object_of(asked, GATES)], "default"), 1000).copies


@pytest.mark.parametrize("name", profiles.known())
def test_every_profile_is_valid(name: str) -> None:
    trees = [(f"object {number}", tree) for number, tree in enumerate(profiles.objects_of(name, NOW))]
    assert [finding for finding in lint(trees, GATES, None) if finding.level == "error"] == []


def test_nodes_are_counted_and_named() -> None:
    cluster = Cluster(profiles.objects_of("dgx-h100*2, cpu, cpu*2", NOW), gates=GATES)
    names = {node.metadata.name for node in cluster.all(Node)}
    assert names == {"dgx-h100-0", "dgx-h100-1", "cpu-0", "cpu-1", "cpu-2"}
    devices = [len(piece.spec.devices) for piece in cluster.all(ResourceSlice) if piece.spec.nodeName == "dgx-h100-1"]
    assert devices == [8, 8]


@pytest.mark.parametrize(
    ("line", "asked", "expected"),
    [
        ("dgx-h100*2", claim_for(request("gpu.nvidia.com")), 16),
        (
            "dgx-h100",
            claim_for(request("gpu.nvidia.com"), request("dranet", "n"), same="resource.kubernetes.io/pcieRoot"),
            8,
        ),
        ("dgx-h100", claim_for(request("gpu.nvidia.com", count=2), same="resource.kubernetes.io/pcieRoot"), 0),
        ("dgx-h100", claim_for(request("dranet", count=3), same="dra.net/numaNode"), 2),
        ("mig-a100", claim_for(request("gpu.nvidia.com")), 8),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("1g.5gb"))), 56),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("2g.10gb"))), 24),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("3g.20gb"))), 16),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("4g.20gb"))), 8),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("7g.40gb"))), 8),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("1g.10gb"))), 56),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("1g.20gb"))), 32),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("2g.20gb"))), 24),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("3g.40gb"))), 16),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("7g.80gb"))), 8),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("1g.10gb"))), 32),
        ("mig-a100", claim_for(request("mig.nvidia.com", expression=mig("1g.5gb+me"))), 8),
        ("mig-h100", claim_for(request("mig.nvidia.com", expression=mig("1g.10gb+me"))), 8),
        ("mi300x-partitions", claim_for(request("gpu.amd.com", expression=PARTITION + ' == "cpx"')), 64),
        ("mi300x-partitions", claim_for(request("gpu.amd.com", expression=PARTITION + ' == "dpx"')), 16),
        ("mi300x-partitions", claim_for(request("gpu.amd.com", expression=PARTITION + ' == "spx"')), 8),
        ("intel-qat", claim_for(request("qat.intel.com")), 32),
        ("sriov-vf", claim_for(request("sriovnetwork.k8snetworkplumbingwg.io", count=8), same="dra.net/numaNode"), 2),
        ("gb200-nvl72*18", claim_for(request("gpu.nvidia.com", count=4)), 18),
        ("gb200-nvl72*2", claim_for(request("compute-domain-default-channel.nvidia.com")), 2),
        ("mi300x", claim_for(request("gpu.amd.com", count=4), same="gpu.amd.com/numaNode"), 2),
        ("gaudi3", claim_for(request("gaudi.intel.com", count=2), same="gaudi.intel.com/pciRoot"), 4),
        ("tpu-v6e*2", claim_for(request("tpu.google.com", allocationMode="All")), 2),
        ("sriov-nic", claim_for(request("dranet", capacity={"requests": {"bandwidth": "30G"}})), 6),
        ("sriov-nic", claim_for(request("dranet")), 200),
        ("cpu*2", claim_for(request("dra.cpu", capacity={"requests": {"dra.cpu/cpu": "8"}})), 16),
    ],
)
def test_as_many_claims_fit_as_the_hardware_has_room_for(line: str, asked: Tree, expected: int) -> None:
    assert copies(line, asked) == expected


@pytest.mark.parametrize("name", profiles.known())
def test_the_example_of_a_profile_gets_devices_of_each_of_its_classes(name: str) -> None:
    profile = profiles.read(name)
    assert all(one.driver and one.version for one in profile.follows)
    assert profile.follows
    trees = [tree for tree in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()) if tree]
    specs = [tree["spec"].get("spec", tree["spec"]) for tree in trees if tree["kind"] != "Pod"]
    asked = {one["exactly"]["deviceClassName"] for spec in specs for one in spec["devices"]["requests"]}
    assert asked == {one.name for one in profile.classes}
    cluster = Cluster(profiles.objects_of(f"{name}*2", NOW), gates=GATES)
    batch = demand_of([object_of(tree, GATES) for tree in trees], "default")
    placed = place(cluster, batch)
    assert len(placed) == len(batch.pods)
    assert [one.words for one in placed if not (one.node and one.devices)] == []


def test_a_pool_that_spans_nodes_is_there_once_and_serves_all_of_them() -> None:
    slices = [one for one in profiles.objects_of("gb200-imex-domain*3", NOW) if one["kind"] == "ResourceSlice"]
    spanning = [one["spec"] for one in slices if "nodeSelector" in one["spec"]]
    assert len(spanning) == 1
    assert "nodeName" not in spanning[0]
    assert len(spanning[0]["devices"]) == 128
    with_gpus = claim_for(request("gpu.nvidia.com", count=4), request("imex.nvidia.com", "channel"))
    assert copies("gb200-imex-domain*3", with_gpus) == 3
    assert copies("gb200-imex-domain*3", claim_for(request("imex.nvidia.com"))) == 128


def test_a_pool_that_spans_nodes_needs_a_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("capacity: {}\npools: [{driver: d, devices: [], nodeSelector: {nodeSelectorTerms: []}}]\n")
    with pytest.raises(profiles.ProfileError, match="a pool with a node selector needs a name"):
        profiles.objects_of(str(file), NOW)


def test_a_profile_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("capacity: {cpu: '1', pods: '3'}\n")
    assert [tree["metadata"]["name"] for tree in profiles.objects_of(f"{file}*2", NOW)] == ["mine-0", "mine-1"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dgx", "there is no profile dgx; there are cpu, dgx-h100, gaudi3, gb200-imex-domain, "),
        ("cpu*0", r"expected NAME or NAME\*COUNT"),
        ("cpu*many", r"expected NAME or NAME\*COUNT"),
        ("", r"expected NAME or NAME\*COUNT"),
        ("nowhere.yaml", "profile nowhere.yaml: "),
    ],
)
def test_lines_that_name_no_profile_are_refused(line: str, message: str) -> None:
    with pytest.raises(profiles.ProfileError, match=message):
        profiles.objects_of(line, NOW)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("labels: {}", "capacity"),
        ("capacity: {}\ncolour: red", "colour"),
        (
            "capacity: {}\npools: [{driver: d, devices: [{repeat: {n: 2}, name: 'x-{m}'}]}]",
            "expected words of `repeat`",
        ),
    ],
)
def test_files_that_are_no_profile_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(profiles.ProfileError, match=message):
        profiles.objects_of(str(file), NOW)
