"""Which features a cluster has, found out by asking its API server.

A server without a feature drops its fields, so who writes them must know. What the server says of its own gates counts
(`kubernetes_feature_enabled` in /metrics, which takes a permission), otherwise the defaults of its release. A gate that the
operator has set is left as it is. Left out: which kinds are served (`versions`), and what follows from a gate.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from dray.api.errors import ApiError
from dray.api.gates import GATES, NEWEST, FeatureGates, GateError
from dray.client.http import Http

_ENABLED = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} ([01])', re.MULTILINE)
_DIGITS = re.compile(r"\d+")


class ClusterGates(NamedTuple):
    """What was found, and in words how it differs from the defaults."""

    gates: FeatureGates
    release: str  # such as 1.36; empty if the server does not tell
    differences: tuple[str, ...]  # as NAME=false


async def discover(client: Http, chosen: FeatureGates) -> ClusterGates:
    """The gates of a cluster, where those that were chosen are left as they are."""
    minor = await _minor(client)
    release = FeatureGates.of_release(NEWEST if minor is None else minor)
    told = await _told(client)
    found = {gate.name: told.get(gate.name, told.get(gate.alias, release.enabled(gate.name))) for gate in GATES}
    try:
        gates = FeatureGates.of({**found, **chosen.chosen})
    except GateError:
        gates = FeatureGates(
            {**found, **chosen.chosen}
        )  # a choice of the operator needs a gate that the cluster has not
    defaults = FeatureGates()
    differences = tuple(
        f"{gate.name}={str(found[gate.name]).lower()}"
        for gate in GATES
        if gate.name not in chosen.chosen and found[gate.name] != defaults.enabled(gate.name)
    )
    return ClusterGates(gates, "" if minor is None else f"1.{minor}", differences)


async def holds_devices(client: Http) -> bool:
    """Whether the API server gives each device to one claim, whoever allocates: dray's does, Kubernetes' does not."""
    try:
        version = msgspec.json.decode(await client.read("/version")).get("gitVersion", "")
    except (ApiError, msgspec.DecodeError, AttributeError):
        return False
    return "+dray" in str(version)


async def _minor(client: Http) -> int | None:
    """The minor release; providers append a plus."""
    try:
        minor = msgspec.json.decode(await client.read("/version")).get("minor", "")
    except (ApiError, msgspec.DecodeError, AttributeError):
        return None
    digits = _DIGITS.match(str(minor))
    return int(digits[0]) if digits else None


async def _told(client: Http) -> dict[str, bool]:
    """The gates that the server tells in its metrics; none where it does not, or where that is not permitted."""
    try:
        text = (await client.read("/metrics")).decode(errors="replace")
    except ApiError:
        return {}
    return {name: value == "1" for name, value in _ENABLED.findall(text)}
