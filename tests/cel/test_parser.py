"""The grammar, and where an expression that does not follow it goes wrong."""

from __future__ import annotations

import pytest

from dray.cel import compile_selector
from tests.cel.asking import ask, complaint


@pytest.mark.parametrize(
    "fact",
    [
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "10 - 4 - 3 == 3",
        "100 / 10 / 5 == 2",
        "true || false && false",
        "!false == true",
        "-1 - -1 == 0",
        "false ? false : false ? false : true",
        "1 < 2 == true",
        "[1, 2,] == [1, 2]",
        '{"a": 1,}.a == 1',
        "device.driver != '' // what follows is a comment",
        "\ttrue\n\n||\r\nfalse",
        "device.`driver` == device.driver",
        ".device.driver == device.driver",
        "2 in [1, 2] == true",
    ],
)
def test_what_binds_to_what(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "line", "column"),
    [
        ("", 1, 0),
        ("// nothing", 1, 11),
        ("1 +", 1, 4),
        ("true true", 1, 6),
        ("(1", 1, 3),
        ("[1, 2", 1, 6),
        ("{1}", 1, 3),
        ("1 ? 2", 1, 6),
        ("device.", 1, 8),
        ("device.1", 1, 7),
        ("true ? true ? true : true : true", 1, 13),
        ("1 = 2", 1, 3),
        ("true & true", 1, 6),
        ('"abc', 1, 1),
        ("true &&\n@", 2, 1),
        ("`a` == 1", 1, 1),
        ("in in in", 1, 1),
        ("0x == 1", 1, 2),
    ],
)
def test_a_syntax_error_says_where(expression: str, line: int, column: int) -> None:
    assert complaint(expression).startswith(f"ERROR: <input>:{line}:{column}: Syntax error: ")


def test_an_operator_without_operands_is_told_with_what_follows() -> None:
    wanted = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    wanted += "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
    error = compile_selector("*").error
    assert error is not None
    assert error.detail == (
        f"compilation failed: ERROR: <input>:1:1: Syntax error: mismatched input '*' expecting {wanted}\n | *\n | ^\n"
        f"ERROR: <input>:1:2: Syntax error: mismatched input '<EOF>' expecting {wanted}\n | *\n | .^"
    )


def test_an_empty_expression_has_no_first_column() -> None:
    assert complaint("").startswith("ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {")


def test_an_error_shows_its_line_and_points_at_its_column() -> None:
    error = compile_selector("'äöü' == ''\n  && nope\n||\tother").error
    assert error is not None
    assert error.detail == (
        "compilation failed: ERROR: <input>:2:6: undeclared reference to 'nope' (in container '')\n"
        " |   && nope\n"
        " | .....^\n"
        "ERROR: <input>:3:4: undeclared reference to 'other' (in container '')\n"
        " | || other\n"
        " | ...^"
    )


@pytest.mark.parametrize(
    "word", ["as", "break", "const", "for", "function", "if", "import", "let", "loop", "var", "while"]
)
def test_reserved_words_are_no_names(word: str) -> None:
    assert complaint(f"{word} == 1") == f"ERROR: <input>:1:1: reserved identifier: {word}"
    assert complaint(f"device.{word} == 1") == f"ERROR: <input>:1:7: undefined field '{word}'"
