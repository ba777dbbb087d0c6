"""ServiceCIDR: a range of IP addresses for Services."""

from __future__ import annotations

from dray.api.addresses import BAD_CIDR, is_network
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid, required
from dray.api.kind import STATUS, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import networking

KIND = Resource(
    networking.ServiceCIDR,
    namespaced=False,
    subresources=STATUS,
    columns=(NAME, text("CIDRs", lambda range_: ",".join(range_.spec.cidrs)), AGE),
)


def service_ranges(spec: networking.ServiceCIDRSpec, path: Path) -> Errors:
    """Yield errors unless a ServiceCIDR has one or two networks of different IP families."""
    here, given = path / "cidrs", spec.cidrs
    if not given:
        yield required(here, "at least one CIDR required")
    elif len(given) > 2:
        yield invalid(here, spec, "may only hold up to 2 values")
    elif len(given) == 2 and len({":" in text for text in given if is_network(text)}) < 2:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(here, spec, text)
    else:
        for index, text in enumerate(given):
            if not is_network(text, strict=True):
                yield invalid(here / index, text, BAD_CIDR)
