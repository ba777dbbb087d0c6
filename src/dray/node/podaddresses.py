"""Addresses for pods on one machine: each pod gets its own loopback address, so that several pods can listen at one
port.

Every address of 127.0.0.0/8 belongs to the machine without any configuration. A pod must listen at its own address
(`status.podIP` of the downward API); a pod that listens at all addresses still occupies the port for all pods. Left
out: addresses of simulated pods (`dray.api.simulated`).
"""

from __future__ import annotations

import ipaddress

from dray.api.simulated import pod_address
from dray.api.types.core import Pod

LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")
EXAMPLE = "127.64.0.0/10"
_FEWEST = 65536  # with fewer addresses, two of some hundred pods would probably get the same one


def loopback_range(text: str) -> ipaddress.IPv4Network:
    """Parse an address range for pods. Raises ValueError unless it is a large part of 127.0.0.0/8 without 127.0.0.1."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"expected an IPv4 network in CIDR form, such as {EXAMPLE}: {error}") from None
    if not network.subnet_of(LOOPBACK) or ipaddress.IPv4Address("127.0.0.1") in network:
        raise ValueError(f"{text} is not a part of {LOOPBACK} without 127.0.0.1, such as {EXAMPLE}")
    if network.num_addresses < _FEWEST:
        raise ValueError(f"{text} has {network.num_addresses} addresses, expected at least {_FEWEST}")
    return network


def own_address(network: ipaddress.IPv4Network | None, pod: Pod) -> str:
    """Return the pod's own address in the network, or "" if the pod shares the address of its node.

    That applies to pods with hostNetwork, and to all pods if `network` is None.
    """
    if network is None or pod.spec.hostNetwork:
        return ""
    return pod_address(network, pod.metadata.uid)
