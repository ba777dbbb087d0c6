"""The checkpoint on the disk is ahead of every call to a driver, whenever the agent is killed."""

from __future__ import annotations

from pathlib import Path

from dray.node.checkpoint import Checkpoint, DriverShare, PreparedClaim
from dray.node.claims import ClaimsOnNode
from tests.node.cluster import Cluster
from tests.node.driver import Driver
from tests.node.test_claims import Place, claims, place

__all__ = ["claims", "place"]  # fixtures


async def test_a_claim_is_on_the_disk_from_before_prepare_until_after_unprepare(
    cluster: Cluster, place: Place, claims: ClaimsOnNode, driver: Driver, root: Path
) -> None:
    seen: list[tuple[str, bool, bool]] = []

    def look(method: str, uid: str) -> str:
        found = Checkpoint.open(root / "claims.json")[0].claims.get(uid)
        seen.append((method, found is not None, found is not None and found.prepared))
        return ""

    driver.fail = look
    await cluster.claim("c")
    pod = await cluster.pod("a", claims=("c",))
    await claims.prepare(pod)
    [known] = Checkpoint.open(root / "claims.json")[0].claims.values()
    assert known.prepared
    await claims.unprepare(pod.metadata.uid)
    assert [(method.lower(), there, prepared) for method, there, prepared in seen] == [
        ("prepare", True, False),
        ("unprepare", True, False),
    ]
    assert Checkpoint.open(root / "claims.json")[0].claims == {}


def test_a_claim_that_is_being_unprepared_is_not_prepared() -> None:
    shares = (DriverShare("d", devices=()),)
    assert PreparedClaim("uid", "ns", "c", {}, shares).prepared
    assert not PreparedClaim("uid", "ns", "c", {}, shares, leaving=True).prepared
    assert not PreparedClaim("uid", "ns", "c", {}, (*shares, DriverShare("e"))).prepared
