"""What calls of library functions cost: the estimate and the charge."""

from __future__ import annotations

import pytest

from dray.cel import compile_selector
from tests.cel.asking import BARE

LONG_IP = "2001:db8:3333:4444:5555:6666:7777:8888"


@pytest.mark.parametrize(
    ("expression", "most", "cost"),
    [
        ("ip('192.168.0.1').family() == 4", 4, 4),
        (f"ip('{LONG_IP}').isLoopback()", 5, 5),
        ("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5),
        ("ip.isCanonical('192.168.0.1')", 3, 3),
        (f"ip.isCanonical('{LONG_IP}')", 8, 8),
        ("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 11, 7),
        ("cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')", 11, 7),
        ("cidr('192.168.0.0/16').containsIP(ip('192.0.0.1'))", 7, 4),
        ("cidr('192.168.0.0/16').containsIP('192.169.0.1')", 8, 5),
        ("cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/126'))", 11, 7),
        (f"cidr('2001:db8::/32').containsIP('{LONG_IP}')", 10, 7),
        ("cidr('192.168.0.0/16').masked() == cidr('2001:db8::/32')", 6, 6),
        ("url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", 9, 7),
        ("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 9, 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 11, 9),
        ("'abc 123 def 123'.replace('123', '456') == ''", 3, 3),
        ("'abc 123 def 123'.find('123') == ''", 2, 2),
        ("quantity('200M') == quantity('200M')", 3, 3),
        ("quantity('50k').add(quantity('20')) == quantity('50.02k')", 5, 5),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() > 0", 7, 7),
        ("semver('1.2.3-longer.than.ten').major() == 1", 5, 5),
        ("isSemver(device.driver)", 9, 4),
        ("format.named('dns1123Label').value().validate('my-name').hasValue()", 35, 11),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", 11, 5),
        # Lists of constants are made when compiling; the estimate does not know.
        ("[1, 2, 3, 4, 5].sum() == 15", 16, 6),
        ("[2, 3, 1].sort() == [1, 2, 3]", 50, 30),
        ("[1, 1, 1].distinct() == [1]", 50, 30),
        ("[3, 2, 1].reverse() == [1, 2, 3]", 35, 15),
        ("lists.range(4) == [0, 1, 2, 3]", 26, 16),
        ("sets.contains([1, 2, 3, 4], [2, 3])", 29, 9),
        ("sets.equivalent([1, 2, 3], [3, 2, 1])", 39, 19),
        ("!sets.intersects([1], [2])", 23, 3),
        ("device.driver in ['a', 'b', 'c']", 15, 2),
    ],
)
def test_calls_cost_what_they_cost_kubernetes(expression: str, most: int, cost: int) -> None:
    selector = compile_selector(expression)
    assert (selector.max_cost, selector.evaluate(BARE).cost) == (most, cost)
