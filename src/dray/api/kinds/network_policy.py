"""NetworkPolicy: restricts network traffic of pods. Stored only; dray does not enforce it."""

from __future__ import annotations

import ipaddress

from dray.api import names
from dray.api.addresses import BAD_CIDR, is_network
from dray.api.cells import selector
from dray.api.columns import AGE, NAME, text
from dray.api.errors import forbidden, invalid, required
from dray.api.kind import Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named
from dray.api.trees import fill
from dray.api.types import networking
from dray.api.wire import Tree


def _directions(tree: Tree) -> None:
    """Default policyTypes to Ingress, and also Egress if the policy has egress rules."""
    spec = tree.setdefault("spec", {})
    fill(spec, "policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


KIND = Resource(
    networking.NetworkPolicy,
    short_names=("netpol",),
    inert=True,
    columns=(NAME, text("Pod-Selector", lambda policy: selector(policy.spec.podSelector)), AGE),
    generation=("spec",),
    defaults={"spec.ingress[].ports[].protocol": "TCP", "spec.egress[].ports[].protocol": "TCP"},
    more_defaults=_directions,
)


def _is_part(inner: str, outer: str) -> bool:
    """Return whether a network is a strict subset of another; False for different IP versions.

    Raises ValueError if a text is not a network.
    """
    part, whole = (ipaddress.ip_network(text, strict=False) for text in (inner, outer))
    return part.version == whole.version and part.prefixlen > whole.prefixlen and part.network_address in whole


def policy_port(port: networking.NetworkPolicyPort, path: Path) -> Errors:
    """Yield errors in the port or port range of a NetworkPolicy. endPort needs a numeric port that is not greater."""
    if isinstance(port.port, int):
        yield from named(port.port, path / "port", names.port_number)
        if port.endPort is not None:
            if port.endPort < port.port:
                yield invalid(path / "endPort", port.port, "must be greater than or equal to `port`")
            yield from named(port.endPort, path / "endPort", names.port_number)
    elif isinstance(port.port, str):
        yield from named(port.port, path / "port", names.port_name)
        if port.endPort is not None:
            yield invalid(path / "endPort", port.endPort, "may not be specified when `port` is non-numeric")
    elif port.endPort is not None:
        yield invalid(path / "endPort", port.endPort, "may not be specified when `port` is not specified")


def peer(value: networking.NetworkPolicyPeer, path: Path) -> Errors:
    """Yield an error unless a NetworkPolicy peer has either an ipBlock or selectors, and not both."""
    selected = value.podSelector is not None or value.namespaceSelector is not None
    if value.ipBlock is not None and selected:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    elif value.ipBlock is None and not selected:
        yield required(path, "must specify a peer")


def block(value: networking.IPBlock, path: Path) -> Errors:
    """Yield errors if an ipBlock is not a network, or an exception is not a strict subset of it.

    An empty cidr is not reported here. Exceptions are checked only if the cidr is valid.
    """
    if not value.cidr:
        return  # a schema constraint reports this
    if not is_network(value.cidr):
        yield invalid(path / "cidr", value.cidr, BAD_CIDR)
    else:
        for index, text in enumerate(value.except_):
            if not is_network(text):
                yield invalid(path / "except" / index, text, BAD_CIDR)
            elif not _is_part(text, value.cidr):
                yield invalid(path / "except" / index, text, "must be a strict subset of `cidr`")
