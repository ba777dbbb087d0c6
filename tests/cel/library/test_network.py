"""IP addresses and networks."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "ip('::1').family() == 6",
        "isIP('127.0.0.1') && !isIP('127.0.0.256') && !isIP(':::1') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip.isCanonical('127.0.0.1') && !ip.isCanonical('2001:DB8::ABCD') && !ip.isCanonical('2001:db8::0:0:0:abcd')",
        "ip('0.0.0.0').isUnspecified() && !ip('::1').isUnspecified()",
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback()",
        "ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast() && !ip('fd80::1').isLinkLocalUnicast()",
        "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()",
        "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && cidr('192.168.0.0/24').containsIP('192.168.0.1')",
        "!cidr('192.168.0.0/24').containsIP('192.168.1.1')",
        "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1')",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')",
        "cidr('192.168.0.1/24') != cidr('192.168.0.1/24').masked()",
        "cidr('::1/128').prefixLength() == 128",
        "isCIDR('::1/128') && !isCIDR('::1/129') && !isCIDR('192.168.0.0/33')",
        "string(ip('::1')) == '::1' && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            'ip(device.driver) == ip("::1")',
            'IP Address "gpu.example.com" parse error during conversion from string: ParseAddr("gpu.example.com"): unexpected character (at "gpu.example.com")',
        ),
        (
            'cidr(device.driver) == cidr("::1/128")',
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"gpu.example.com\"): no '/'",
        ),
        (
            'cidr("10.0.0.0/8").containsIP(device.driver)',
            'IP Address "gpu.example.com" parse error during conversion from string: ParseAddr("gpu.example.com"): unexpected character (at "gpu.example.com")',
        ),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
