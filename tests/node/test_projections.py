"""Tokens of service accounts: kept for most of their life, renewed before its end."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.errors import ServiceUnavailable
from dray.api.times import timestamp
from dray.api.types.authentication import TokenRequest
from dray.api.types.core import Pod, ServiceAccountTokenProjection
from dray.client import ManualClock
from dray.node.projections import ProjectedTokens

POD = msgspec.convert(
    {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"serviceAccountName": "sa"}}, Pod
)


class Issuer:
    """The part of a client that issues tokens; it can be out of order."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.requests: list[dict[str, Any]] = []
        self.down = False

    async def create(self, type_: type, request: dict[str, Any], **where: str) -> TokenRequest:
        if self.down:
            raise ServiceUnavailable("away")
        assert where == {"namespace": "n", "name": "sa", "subresource": "token"}
        self.requests.append(request["spec"])
        seconds = request["spec"].get("expirationSeconds", 3600)
        status = {"token": f"t{len(self.requests)}", "expirationTimestamp": timestamp(self._clock.time() + seconds)}
        return msgspec.convert({"status": status}, TokenRequest)


async def test_a_token_is_renewed_after_four_fifths_of_its_life() -> None:
    clock = ManualClock()
    issuer = Issuer(clock)
    tokens = ProjectedTokens(issuer, clock, jitter=lambda: 0.0)  # type: ignore[arg-type]  # all that is asked of a client
    projection = ServiceAccountTokenProjection(path="token", expirationSeconds=1000, audience="a")
    assert tokens.renewal is None
    assert await tokens.get(POD, projection) == "t1"
    assert issuer.requests[0]["boundObjectRef"] == {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"}
    assert issuer.requests[0]["audiences"] == ["a"]
    await clock.advance(799)
    assert await tokens.get(POD, projection) == "t1"
    await clock.advance(2)
    assert await tokens.get(POD, projection) == "t2"
    assert tokens.renewal == clock.time() + 800


async def test_a_token_that_cannot_be_renewed_is_used_on_and_tried_again_later() -> None:
    clock = ManualClock()
    issuer = Issuer(clock)
    tokens = ProjectedTokens(issuer, clock, jitter=lambda: 0.0)  # type: ignore[arg-type]
    projection = ServiceAccountTokenProjection(path="token", expirationSeconds=1000)
    await tokens.get(POD, projection)
    issuer.down = True
    await clock.advance(900)
    assert await tokens.get(POD, projection) == "t1"
    assert tokens.renewal == clock.time() + 30
    issuer.down = False
    await clock.advance(30)
    assert await tokens.get(POD, projection) == "t2"


async def test_a_token_lives_no_longer_than_a_day() -> None:
    clock = ManualClock()
    tokens = ProjectedTokens(Issuer(clock), clock, jitter=lambda: 0.0)  # type: ignore[arg-type]
    await tokens.get(POD, ServiceAccountTokenProjection(path="token", expirationSeconds=10_000_000))
    assert tokens.renewal == clock.time() + 24 * 3600
