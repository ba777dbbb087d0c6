"""Whatever the text, compiling answers with a selector or a CompileError, in time that grows with the text's length."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dray.cel import MAX_LENGTH, CompileError, Selector, check_selector
from dray.cel.admission import Compiler
from dray.cel.errors import CelIssue, Problems
from dray.cel.lexer import tokenize
from dray.cel.parser import parse
from dray.cel.stack import deep_stack
from tests.cel.expressions import selectors

SECONDS = 3.0  # of the thread's processor time, for what takes a tenth of that on an idle machine

_WORDS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "<",
    "<=",
    "==",
    "!=",
    ">=",
    ">",
    "&&",
    "||",
    "in",
    "true",
    "false",
    "null",
    "0",
    "1",
    "7u",
    "2.5",
    "'a'",
    "b'a'",
    'r"x"',
    '"%s"',
    "x",
    "y",
    "a",
    "device",
    "driver",
    "attributes",
    "capacity",
    ".all(",
    ".exists(",
    ".map(",
    ".filter(",
    ".exists_one(",
    ".optMap(",
    ".sortBy(",
    ".transformMap(",
    "cel.bind(",
    "size(",
    "has(",
    "dyn(",
    "type(",
    "optional.of(",
    "optional.none()",
    ".format(",
    ".matches(",
    ".flatten()",
    "quantity(",
    "semver(",
    "[?",
    "[]",
    "{}",
]
_token_soup = st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join)
_AROUND = [("(", ")"), ("[", "]"), ("{1:", "}"), ("[?", "]"), ("!", ""), ("-", ""), ("size(", ")"), ("true?1:", "")]
_nested = st.tuples(st.sampled_from(_AROUND), st.integers(1, 300)).map(
    lambda drawn: drawn[0][0] * drawn[1] + "1" + drawn[0][1] * drawn[1]
)


def _fill(unit: str, sep: str = "", before: str = "", after: str = "") -> str:
    """As many units as a selector may be long."""
    room = MAX_LENGTH - len(before) - len(after) + len(sep)
    return before + sep.join([unit] * (room // (len(unit) + len(sep)))) + after


def _doubled(name: str, first: str, levels: int) -> str:
    """Variables of which each is a map from the one before to the one before: its type is twice as large."""
    values = (f"{name}{at - 1}:{name}{at - 1}" if at else first for at in range(levels))
    return "".join(f"cel.bind({name}{at},{{{value}}}," for at, value in enumerate(values))


HOSTILE = {
    "brackets": "size(" + "[" * 240 + "]" * 240 + ")==1",
    "many deep lists": _fill("[" * 200 + "]" * 200, ",", "size([", "])==1"),
    "many deep maps": _fill("{1:" * 80 + "{}" + "}" * 80, ",", "size([", "])==1"),
    "sums of lists": _fill("+".join(["[]"] * 200) + "==[]", "&&"),
    "sums": _fill("+".join(["1"] * 200) + "==1", "&&"),
    "chains of maps": _fill("[[]]" + ".map(x,[x])" * 200 + "==[]", "&&"),
    "chains of map macros": _fill("{}" + ".transformMap(i,v,{i:v})" * 190 + "=={}", "&&"),
    "macros that copy": _fill("optional.of(1)" + ".optMap(x,x)" * 9 + ".hasValue()", "&&"),
    "a type that doubles": _doubled("a", "1:1", 60) + "true" + ")" * 60,
    "large types compared": _fill("a7==b7", ",", _doubled("a", "1:1", 8) + _doubled("b", "1:1u", 8) + "[", "]==[]" + ")" * 16),
    "large open types": _fill("[]==a7", ",", _doubled("a", "[]:[]", 8) + "[", "]==[]" + ")" * 8),
    "errors in one line": _fill("a7.x", ",", _doubled("a", "1:1", 8) + "[", "]==1" + ")" * 8),
    "errors in many lines": "x\n&&" * 2500 + "x",
    "stray characters": "@\n" * 5000,
    "names in scopes": "[1].all(b," + "[1].all(a," * 70 + "&&".join(["b==b"] * 1400) + ")" * 71,
    "selections": _fill("device" + ".a" * 240, ",", "size([", "])==1"),
    "branches": "(true?" * 100 + "[[]]" + ":[[]])" * 100 + "[0]" * 140 + "==[]",
    "quotes": "'" * 9999,
    "regular expressions": _fill("''.matches('(a{1,100}){1,9}')", "&&"),
}  # fmt: skip


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_what_is_made_to_compile_slowly_does_not(expression: str) -> None:
    assert len(expression) <= MAX_LENGTH
    began = time.thread_time()
    selector = Selector(expression)
    assert time.thread_time() - began < SECONDS
    assert selector.error is None or len(str(selector.error)) < 200_000


def test_a_type_that_grows_beyond_bounds_is_refused() -> None:
    error = Selector(HOSTILE["a type that doubles"]).error
    assert error is not None
    assert error.detail == (
        "compilation failed: ERROR: <input>:-1:0: expression type exceeds the limit of 1000 nested types"
    )


def test_of_many_errors_the_first_hundred_are_told() -> None:
    error = Selector("&&".join(["x"] * 150)).error
    assert error is not None
    assert error.detail.count("undeclared reference") == 100
    assert error.detail.endswith("\n50 more errors were truncated")


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(max_size=300), _token_soup, _nested, selectors))
@example("[?" * 120 + "optional.none()" + "]" * 120 + "==[]")
@example("\ud800'\ud800")
def test_nothing_but_an_error_of_its_own_comes_of_any_text(text: str) -> None:
    began = time.thread_time()
    assert isinstance(Selector(text).error, CompileError | None)
    check_selector(text)
    for use in ("condition", "validation"):
        assert isinstance(Compiler(params=True, composed=False).compile(use, text).error, CompileError | None)
    assert time.thread_time() - began < SECONDS


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.text(max_size=300), _token_soup))
def test_lexer_and_parser_raise_problems_or_nothing(text: str) -> None:
    tokens, _ = tokenize(text)
    assert tokens[-1].kind == "<EOF>"
    assert all(0 <= (problem.offset or 0) <= len(text) for problem in _problems(text))


def _problems(text: str) -> tuple[CelIssue, ...]:
    with deep_stack():
        try:
            parse(text)
        except Problems as problems:
            return problems.problems
    return ()
