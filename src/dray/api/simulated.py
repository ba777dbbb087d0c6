"""Pods that nothing runs: how their nodes are marked, and which addresses they have. Pure.

Simulated nodes and the runtime `fake` report pods as running although no process belongs to them. Whoever would connect
to such a pod asks `runs_no_pods` and `is_reserved` first, because a stranger may answer at its address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RUNS_NO_PODS = "dray.dev/runs-no-pods"  # annotation of a node that executes nothing
BY_SIMULATION, BY_FAKE_RUNTIME = "simulated", "fake"  # its values: the node itself is simulated, or its runtime is
SIMULATED = "dray.dev/simulated"  # label of the nodes that `dray up` makes
BENCHMARKING = ipaddress.ip_network("198.18.0.0/15")  # RFC 2544: no network routes it
POD_RANGE: Network = ipaddress.ip_network("198.19.0.0/16")  # the half of it that simulated nodes leave free
_FEWEST = 256  # addresses: with fewer, hardly a pod would have one of its own
_SPECIAL = {
    "127.0.0.0/8": "loopback",
    "::1/128": "loopback",
    "0.0.0.0/8": "unspecified",
    "::/128": "unspecified",
    "169.254.0.0/16": "link-local",
    "fe80::/10": "link-local",
    "224.0.0.0/3": "multicast or reserved",
    "ff00::/8": "multicast",
}


def runs_no_pods(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Why nothing runs the pods of a node with this metadata; empty if something does."""
    mark = annotations.get(RUNS_NO_PODS) or (BY_SIMULATION if labels.get(SIMULATED) == "true" else "")
    if not mark:
        return ""
    return "has the runtime fake" if mark == BY_FAKE_RUNTIME else "is simulated"


def is_simulated(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether not even a node agent is behind a node with this metadata."""
    return bool(runs_no_pods(labels, annotations)) and annotations.get(RUNS_NO_PODS) != BY_FAKE_RUNTIME


def is_reserved(host: str) -> bool:
    """Whether a host is an address of the range that simulated nodes and pods have by default."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address) in BENCHMARKING


def pod_range(text: str) -> Network:
    """Read the range of addresses for pods that nothing runs. Raises ValueError if no pod can have such an address."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"expected a network in CIDR form, such as {POD_RANGE}: {error}") from None
    if network.num_addresses < _FEWEST:
        raise ValueError(f"{text} has {network.num_addresses} addresses, expected at least {_FEWEST}")
    for special, what in _SPECIAL.items():
        if network.overlaps(ipaddress.ip_network(special)):
            raise ValueError(f"{text} has {what} addresses, which no pod can have")
    return network


def pod_address(network: Network, uid: str) -> str:
    """Address of a pod in its range. It follows from the uid, so two pods of thousands may have the same one."""
    number = int(uid.replace("-", "")[:12] or "0", 16)
    return str(network[number % network.num_addresses])
