"""Simulated pods: how their nodes are marked, and which addresses the pods have. All functions are pure.

Simulated nodes and the runtime `fake` report pods as running although no process exists. Code that would connect
to a pod must call `runs_no_pods` and `is_reserved` first, because another program may listen at the pod's
address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RUNS_NO_PODS = "dray.dev/runs-no-pods"  # annotation of a node that runs no processes
BY_SIMULATION, BY_FAKE_RUNTIME = "simulated", "fake"  # values: the node itself is simulated, or only its runtime
SIMULATED = "dray.dev/simulated"  # label of nodes created by `dray up`
BENCHMARKING = ipaddress.ip_network("198.18.0.0/15")  # RFC 2544: no network routes it
POD_RANGE: Network = ipaddress.ip_network("198.19.0.0/16")  # the half that is not used by simulated nodes
_FEWEST = 256  # minimum addresses; with fewer, most pods would share an address
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
    """Return why the node with this metadata runs no pods; empty if it does run pods."""
    mark = annotations.get(RUNS_NO_PODS) or (BY_SIMULATION if labels.get(SIMULATED) == "true" else "")
    if not mark:
        return ""
    return "has the runtime fake" if mark == BY_FAKE_RUNTIME else "is simulated"


def is_simulated(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Return whether the node with this metadata is completely simulated, without a node agent."""
    return bool(runs_no_pods(labels, annotations)) and annotations.get(RUNS_NO_PODS) != BY_FAKE_RUNTIME


def is_reserved(host: str) -> bool:
    """Return whether a host is an address in the default range of simulated nodes and pods.

    Returns False for host names. An IPv4 address may be written as IPv6.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address) in BENCHMARKING


def pod_range(text: str) -> Network:
    """Parse the address range of simulated pods (CIDR).

    Raises ValueError if the range is invalid, too small or contains special addresses.
    """
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
    """Return the address of a pod in the range. It is computed from the UID, so two pods can get the same address."""
    number = int(uid.replace("-", "")[:12] or "0", 16)
    return str(network[number % network.num_addresses])
