"""Who calls whom: no package is called back by one that it calls, and only the command line knows arguments of commands."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dray
from dray.api.types.core import Pod
from dray.inspect.explain import explain_pod
from dray.questions import DrainNode, Snapshot, cluster_of, demand_of, objects_in, room_of, usage, what_if
from tests.inspect.clusters import cluster, device_cluster

SOURCE = Path(dray.__file__).parent
DATA = Path(__file__).parents[2] / "src/dray/examples/simulation"
# Rules of the API are told how to look objects up, and changes are written into the journal of who tries something.
NEUTRAL = {"api/", "core/journal.py"}


def package_of(frame: FrameType) -> str:
    """The package of dray whose code a frame runs; empty for neutral and foreign code."""
    place = frame.f_code.co_filename.removeprefix(f"{SOURCE}/")
    return "" if place.startswith(("/", "<", *NEUTRAL)) else place.partition("/")[0]


def packages_above(frame: FrameType) -> Iterator[str]:
    """The packages that wait for a frame, from the inside out."""
    above: FrameType | None = frame
    while above is not None:
        if name := package_of(above):
            yield name
        above = above.f_back


def called_back(work: Callable[[], Any]) -> set[str]:
    """The packages that were called by a package that they had called, each with where."""
    found: set[str] = set()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        own = package_of(frame) if event == "call" else ""
        has_left = False
        for name in packages_above(frame) if own else ():
            if name == own and has_left:
                found.add(f"{own}: {frame.f_code.co_qualname}")
                return
            has_left |= name != own

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def ask_everything() -> None:
    snapshot = Snapshot.of(*objects_in((DATA / "cluster.yaml").read_text()))
    training = demand_of(objects_in((DATA / "training.yaml").read_text()), "default")
    what_if(cluster_of(snapshot), training, [DrainNode("node-0")], at_most=100)
    for seed in range(6):
        for made in (cluster, device_cluster):
            other = Snapshot.of(*made(seed, "1"))
            cluster_of(other)
            usage(other, "devices")
            room_of(other)
            for pod in other.all(Pod):
                if not pod.spec.nodeName:
                    explain_pod(other, pod.metadata.namespace, pod.metadata.name)


def test_no_package_is_called_back_by_one_that_it_calls() -> None:
    assert called_back(ask_everything) == set()


def test_a_call_back_is_noticed() -> None:
    snapshot = Snapshot.of(*objects_in((DATA / "cluster.yaml").read_text()))
    gated = objects_in("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {schedulingGates: [{name: g}]}\n")

    def is_late() -> bool:
        return bool(room_of(Snapshot()))

    found = called_back(lambda: what_if(cluster_of(snapshot), demand_of(gated, "default"), at_most=3, is_late=is_late))
    assert "questions: room_of" in found


@pytest.mark.parametrize("unwanted", ["argparse", "dray.cli"])
def test_only_the_command_line_knows_its_arguments(unwanted: str) -> None:
    users = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if f"{name}.".startswith(f"{unwanted}.")
    ]
    others = {user for user in users if not user.startswith(("cli/", "__main__"))}
    assert not others
    assert users
