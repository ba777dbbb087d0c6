"""What a StatefulSet does next, without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.apps import ControllerRevision, StatefulSet
from dray.api.types.core import Pod
from dray.api.types.meta import ObjectMeta
from dray.controllers.workloads.podcontrol import BURST
from dray.controllers.workloads.stateful import Revisions, StatefulView, plan
from tests.controllers.workloads.objects import pod

NOW = 1_000_000.0
OLD, NEW = (ControllerRevision(metadata=ObjectMeta(name=name)) for name in ("old", "new"))


def view(pods: dict[int, Pod], **spec: Any) -> StatefulView:
    whole = {"updateStrategy": {"type": "RollingUpdate"}, "replicas": 2_000_000_000, **spec}
    wanted = msgspec.convert({"metadata": {"name": "web"}, "spec": whole}, StatefulSet)
    return StatefulView(wanted, pods, Revisions(OLD, NEW), NOW)


@pytest.mark.parametrize(("policy", "made"), [("Parallel", BURST), ("OrderedReady", 1)])
def test_a_set_without_end_makes_some_pods_at_a_time(policy: str, made: int) -> None:
    assert [ordinal for ordinal, _ in plan(view({}, podManagementPolicy=policy)).create] == [*range(made)]


def test_a_set_without_end_replaces_a_pod_that_is_stuck() -> None:
    stuck = pod("web-0", node="n", phase="Pending", labels={"controller-revision-hash": "old"})
    assert plan(view({0: stuck})).delete == [stuck]
