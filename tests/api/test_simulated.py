"""Which addresses pods have that nothing runs."""

from __future__ import annotations

import ipaddress
import uuid

import pytest

from dray.api.simulated import POD_RANGE, is_reserved, pod_address, pod_range


@pytest.mark.parametrize("text", ["198.19.0.0/16", "10.244.0.0/16", "fd00:10::/64", "192.0.2.0/24"])
def test_addresses_of_pods_are_in_their_range_and_follow_from_the_uid(text: str) -> None:
    network = pod_range(text)
    uids = [str(uuid.UUID(int=number << 80)) for number in range(300)]
    addresses = [pod_address(network, uid) for uid in uids]
    assert all(ipaddress.ip_address(address) in network for address in addresses)
    assert addresses == [pod_address(network, uid) for uid in uids]
    assert len({*addresses}) > 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a network in CIDR form, such as 198.19.0.0/16"),
        ("198.19.0.1/16", "198.19.0.1/16 has host bits set"),
        ("10.0.0.0/33", "expected a network in CIDR form"),
        ("10.0.0.0/25", "has 128 addresses, expected at least 256"),
        ("127.0.0.0/8", "has loopback addresses, which no pod can have"),
        ("169.254.0.0/16", "has link-local addresses, which no pod can have"),
        ("224.0.0.0/8", "has multicast or reserved addresses, which no pod can have"),
        ("0.0.0.0/8", "has unspecified addresses, which no pod can have"),
        ("96.0.0.0/3", "has loopback addresses, which no pod can have"),
        ("::/64", "has loopback addresses, which no pod can have"),
    ],
)
def test_a_range_that_no_pod_can_have_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        pod_range(text)


def test_the_default_range_is_reserved_and_nothing_else_is() -> None:
    assert is_reserved(pod_address(POD_RANGE, str(uuid.uuid4())))
    for host in ("198.18.0.1", "198.19.255.255", "::ffff:198.19.0.1"):
        assert is_reserved(host)
    for host in ("198.17.255.255", "198.20.0.0", "10.0.0.1", "127.0.0.1", "hook.example.com", ""):
        assert not is_reserved(host)
