"""Plans that make room for a claim, and for the largest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.cli import main
from dray.questions import AddNodes, defragment, demand_of, largest_claims, objects_in
from dray.sim.cluster import Cluster
from tests.sim.test_moving import Held, made

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: large, namespace: default}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: %d}}]}}
"""


def fragmented() -> Cluster:
    """Four devices are free on two nodes, two on each."""
    return made([4, 4, 1], [Held("a", 0, 1), Held("b", 0, 1), Held("c", 1, 2, may_move=False)])


def test_the_fewest_moves_after_which_a_claim_fits() -> None:
    found = defragment(fragmented(), demand_of(objects_in(CLAIM % 3), "default"))
    assert found.plan is not None
    assert [(one.source, one.target) for one in found.plan.moves] == [("n0", "n1")]
    assert [one.node for one in found.plan.pods] == ["n0"]


def test_a_claim_that_fits_needs_no_moves() -> None:
    found = defragment(fragmented(), demand_of(objects_in(CLAIM % 2), "default"))
    assert found.plan is not None
    assert (found.plan.moves, found.fits) == ((), True)


def test_what_moves_cannot_help() -> None:
    demand = demand_of(objects_in(CLAIM % 5), "default")
    cluster = made([5, 1], [Held("a", 0, 1, may_move=False)])
    found = defragment(cluster, demand)
    assert (found.plan, found.complete, found.fits) == (None, True, False)
    assert defragment(cluster, demand, [AddNodes("n0", 1)]).fits


def test_the_largest_claim() -> None:
    [found] = largest_claims(fragmented())
    assert (found.device_class, found.devices_now, found.devices, found.complete) == ("gpu", 2, 4, True)
    assert found.plan is not None
    assert len(found.plan.moves) == 2


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """The fragmented cluster as a file of manifests."""
    import yaml

    from dray.api.wire import tree_of
    from dray.recordings.recording import TYPES

    trees = [tree_of(one) for type_ in TYPES for one in fragmented().all(type_)]
    path = tmp_path / "cluster.yaml"
    path.write_text("---\n".join(yaml.safe_dump(tree) for tree in trees))
    return str(path)


def test_the_command_prints_the_moves(snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = tmp_path / "claim.yaml"
    wanted.write_text(CLAIM % 4)
    ask = ["what-if", "--recording", snapshot, "-f", str(wanted), "--defragment"]
    assert main([*ask, "-o", "json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)
    assert [(one["from"], len(answer["moves"])) for one in answer["moves"]] == [("n0", 2), ("n0", 2)]
    assert main([*ask, "--most-moves", "1"]) == 1
    capsys.readouterr()
    assert main(["what-if", "--recording", snapshot, "--defragment", "-o", "json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)
    assert (answer["class"], answer["devices"], answer["devicesNow"]) == ("gpu", 4, 2)
    assert main(["what-if", "--recording", snapshot, "--defragment", "--how-many"]) == 2
