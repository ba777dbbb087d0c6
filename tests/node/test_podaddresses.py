"""Addresses of the loopback network for pods: which ranges there may be, and who gets one."""

from __future__ import annotations

import pytest

from dray.api.types.core import Pod, PodSpec
from dray.api.types.meta import ObjectMeta
from dray.node.podaddresses import EXAMPLE, loopback_range, own_address


def made(uid: str, **spec: bool) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid=uid), spec=PodSpec(**spec))


def test_pods_have_addresses_of_the_range_which_stay_the_same() -> None:
    network = loopback_range(EXAMPLE)
    one, two = (made(f"{number:08x}-0000-4000-8000-000000000000") for number in (1, 2))
    assert own_address(network, one) != own_address(network, two)
    assert own_address(network, one) == own_address(network, one)
    assert own_address(network, one).startswith("127.")


def test_pods_of_the_host_network_and_pods_without_a_range_share_the_address_of_their_node() -> None:
    assert own_address(loopback_range(EXAMPLE), made("0-1", hostNetwork=True)) == ""
    assert own_address(None, made("0-1")) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0/8", "not a part of 127.0.0.0/8"),
        ("127.0.0.0/8", "without 127.0.0.1"),
        ("127.64.0.0/24", "has 256 addresses, expected at least 65536"),
        ("127.64.0.1/10", "has host bits set"),
        ("::1/128", "expected an IPv4 network"),
        ("nope", "such as 127.64.0.0/10"),
    ],
)
def test_a_range_that_makes_no_sense_is_explained(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        loopback_range(text)
