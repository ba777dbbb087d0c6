"""Strings: the standard functions and the extension."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "'tacocat'.substring(4) == 'cat'",
        "'tacocat'.substring(0, 4) == 'taco'",
        "'hello mellow'.indexOf('') == 0",
        "'hello mellow'.indexOf('ello') == 1",
        "'hello mellow'.indexOf('jello') == -1",
        "'hello mellow'.indexOf('', 2) == 2",
        "'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.lastIndexOf('ello') == 7",
        "'hello mellow'.lastIndexOf('') == 12",
        "'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'hello'.charAt(4) == 'o'",
        "'hello'.charAt(5) == ''",
        "['hello', 'mellow'].join() == 'hellomellow'",
        "['hello', 'mellow'].join(' ') == 'hello mellow'",
        "[].join() == ''",
        "'TacoCÆt Xii'.lowerAscii() == 'tacocÆt xii'",
        "'TacoCÆt Xii'.upperAscii() == 'TACOCÆT XII'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
        "'hello hello'.replace('', '_') == '_h_e_l_l_o_ _h_e_l_l_o_'",
        "'hello hello'.replace('h', '') == 'ello ello'",
        "'hello hello hello'.split(' ') == ['hello', 'hello', 'hello']",
        "'hello hello hello'.split(' ', 0) == []",
        "'hello hello hello'.split(' ', 1) == ['hello hello hello']",
        "'hello hello hello'.split(' ', 2) == ['hello', 'hello hello']",
        "'hello hello hello'.split(' ', -1) == ['hello', 'hello', 'hello']",
        "'abc'.split('') == ['a', 'b', 'c']",
        "'  \\ttrim\\n    '.trim() == 'trim'",
        'strings.quote(\'single-quote with "double quote"\') == "\\"single-quote with \\\\\\"double quote\\\\\\"\\""',
        '"é".size() == 1 && size(b"\\xc3\\xa9") == 2',
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('"abc".substring(5) == ""', "index out of range: 5"),
        ('"abc".substring(2, 1) == ""', "invalid substring range. start: 2, end: 1"),
        ('"abc".charAt(9) == ""', "index out of range: 9"),
        ('"abc".charAt(-1) == ""', "index out of range: -1"),
        ('"abc".indexOf("a", -1) == 1', "index out of range: -1"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
