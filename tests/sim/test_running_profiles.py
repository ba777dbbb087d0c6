"""Profiles in a running cluster: devices that span nodes are registered, and pods on two nodes share one of them."""

from __future__ import annotations

from pathlib import Path

import dray
from dray.testing import Cluster

EXAMPLES = Path(dray.__file__).parent / "examples" / "profiles"


def test_pods_on_two_trays_share_a_channel_of_their_domain() -> None:
    with Cluster(profile="gb200-imex-domain*2") as cluster:
        cluster.apply(EXAMPLES / "gb200-imex-domain.yaml")
        pods = [
            cluster.wait("pods", name, lambda pod: pod["status"].get("phase") == "Running")
            for name in ("trainer-0", "trainer-1")
        ]
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        shared = cluster.get("resourceclaims", "channel")["status"]
        assert {one["name"] for one in shared["reservedFor"]} == {"trainer-0", "trainer-1"}
