"""Discovers which feature gates a cluster has by asking its API server.

A server without a feature drops its fields, so writers must know the gates. The server's own report is used if
available (`kubernetes_feature_enabled` in /metrics, which requires a permission), otherwise the defaults of its
release. Gates set by the operator are not changed. `versions` discovers which kinds are served.
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
    """The discovered gates, and how they differ from the defaults."""

    gates: FeatureGates
    release: str  # for example 1.36; empty if unknown
    differences: tuple[str, ...]  # as NAME=false


async def discover(client: Http, chosen: FeatureGates) -> ClusterGates:
    """Return the gates of a cluster. Gates in `chosen` keep their selected value."""
    minor = await _minor(client)
    release = FeatureGates.of_release(NEWEST if minor is None else minor)
    told = await _told(client)
    found = {gate.name: told.get(gate.name, told.get(gate.alias, release.enabled(gate.name))) for gate in GATES}
    try:
        gates = FeatureGates.of({**found, **chosen.chosen})
    except GateError:
        # A gate selected by the operator requires a gate that the cluster lacks.
        gates = FeatureGates({**found, **chosen.chosen})
    defaults = FeatureGates()
    differences = tuple(
        f"{gate.name}={str(found[gate.name]).lower()}"
        for gate in GATES
        if gate.name not in chosen.chosen and found[gate.name] != defaults.enabled(gate.name)
    )
    return ClusterGates(gates, "" if minor is None else f"1.{minor}", differences)


async def holds_devices(client: Http) -> bool:
    """Return whether the API server prevents allocating a device to two claims, as dray's server does.

    Returns False if the server's version cannot be read.
    """
    try:
        version = msgspec.json.decode(await client.read("/version")).get("gitVersion", "")
    except (ApiError, msgspec.DecodeError, AttributeError):
        return False
    return "+dray" in str(version)


async def _minor(client: Http) -> int | None:
    """Return the minor release of the server, or None if the version cannot be read or has no number.

    Providers append a plus sign to the number, which is ignored.
    """
    try:
        minor = msgspec.json.decode(await client.read("/version")).get("minor", "")
    except (ApiError, msgspec.DecodeError, AttributeError):
        return None
    digits = _DIGITS.match(str(minor))
    return int(digits[0]) if digits else None


async def _told(client: Http) -> dict[str, bool]:
    """Return the gates in the server's metrics; empty if the metrics have none or cannot be read."""
    try:
        text = (await client.read("/metrics")).decode(errors="replace")
    except ApiError:
        return {}
    return {name: value == "1" for name, value in _ENABLED.findall(text)}
