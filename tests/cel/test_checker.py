"""What does not fit together is refused before any device is seen."""

from __future__ import annotations

import pytest

from tests.cel.asking import DOMAIN, ask, complaint


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("nope", 1, "undeclared reference to 'nope' (in container '')"),
        ("nope()", 5, "undeclared reference to 'nope' (in container '')"),
        ("device.driver.nope()", 19, "undeclared reference to 'nope' (in container '')"),
        ("device.nope", 7, "undefined field 'nope'"),
        ('1 + "a" == 2', 3, "found no matching overload for '_+_' applied to '(int, string)'"),
        ('1 == "a"', 3, "found no matching overload for '_==_' applied to '(int, string)'"),
        ("1 == 1.0", 3, "found no matching overload for '_==_' applied to '(int, double)'"),
        ("!1", 1, "found no matching overload for '!_' applied to '(int)'"),
        ("true && 1", 9, "expected type 'bool' but found 'int'"),
        ("1 ? true : false", 3, "found no matching overload for '_?_:_' applied to '(int, bool, bool)'"),
        ("[1].all(x, 1)", 12, "expected type 'bool' but found 'int'"),
        ("size(1) == 1", 5, "found no matching overload for 'size' applied to '(int)'"),
        ('"a" in "b"', 5, "found no matching overload for '@in' applied to '(string, string)'"),
        ("[1].map(x, x).nope", 14, "type 'list(int)' does not support field selection"),
        (
            'device["driver"] == "a"',
            7,
            "found no matching overload for '_[_]' applied to '(kubernetes.DRADevice, string)'",
        ),
        (
            'quantity("1") < quantity("2")',
            15,
            "found no matching overload for '_<_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        ("optional.of(1) == 1", 16, "found no matching overload for '_==_' applied to '(optional_type(int), int)'"),
        (
            'device.capacity["a"].b == 1',
            24,
            "found no matching overload for '_==_' applied to '(kubernetes.Quantity, int)'",
        ),
        ("[1].map(x, x.y) == [1]", 13, "type 'int' does not support field selection"),
        ("Foo{a: 1} == 1", 4, "undeclared reference to 'Foo' (in container '')"),
        ("[1].exists(x, x == y)", 20, "undeclared reference to 'y' (in container '')"),
    ],
)
def test_says_what_does_not_fit_and_where(expression: str, column: int, message: str) -> None:
    assert complaint(expression) == f"ERROR: <input>:1:{column}: {message}"


@pytest.mark.parametrize(
    ("expression", "of"),
    [
        ("1", "int"),
        ("device", "kubernetes.DRADevice"),
        ("[1]", "list(int)"),
        ("string", "type(string)"),
        ("dyn(1)", "dyn"),
    ],
)
def test_a_selector_gives_a_bool_or_an_attribute(expression: str, of: str) -> None:
    assert complaint(expression) == f"must evaluate to bool or the unknown type, not {of}"


def test_an_attribute_fits_everywhere_until_it_is_known() -> None:
    attribute = f'device.attributes["{DOMAIN}"].nope'
    for expression in (
        attribute,
        f"{attribute} == 1",
        f"{attribute}.isLessThan(quantity('1'))",
        f"{attribute} + 'a' == 'b'",
    ):
        assert ask(expression) == "no such key: nope"


def test_an_empty_list_takes_the_type_that_it_meets() -> None:
    assert ask("[] + [1] == [1] && ['a'] + [] == ['a']") is True
    assert complaint("[[], [1]] + ['a'] == []").endswith("applied to '(list(list(int)), list(string))'")


def test_variables_of_macros_hide_others_and_end_with_them() -> None:
    assert ask("[1].exists(device, device == 1) && device.driver != ''") is True
    assert ask("[[1, 2]].all(x, x.all(x, x > 0))") is True
    assert complaint("[1].all(x, x > 0) && x == 1").endswith("undeclared reference to 'x' (in container '')")
