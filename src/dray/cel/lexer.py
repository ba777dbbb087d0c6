"""Lexer: splits the text of an expression into tokens. Each invalid character is reported once and skipped."""

from __future__ import annotations

import re
from typing import NamedTuple

from dray.cel.errors import CelIssue

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_QUOTED = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_RAW = r'[rR](?:"""[\s\S]*?"""|' + r"'''[\s\S]*?'''" + r'|"[^"\n\r]*"' + r"|'[^'\n\r]*')"
_STRING = rf"(?:{_RAW}|{_QUOTED})"

_TOKEN = re.compile(
    rf"""
      (?P<space>[\t\ \r\n\f]+|//[^\n]*)
    | (?P<BYTES>[bB]{_STRING})
    | (?P<STRING>{_STRING})
    | (?P<IDENTIFIER>[a-zA-Z_][a-zA-Z0-9_]*)
    | (?P<ESC_IDENTIFIER>`[a-zA-Z0-9_.\-/\ ]+`)
    | (?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)

_WORDS = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """A token. The kind of an operator or keyword is its text; the kind of the end token is `<EOF>`."""

    kind: str
    text: str
    offset: int


def tokenize(text: str) -> tuple[list[Token], list[CelIssue]]:
    """Split a text into tokens. Returns the tokens, including an end token, and one problem per invalid character."""
    tokens: list[Token] = []
    problems: list[CelIssue] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            problems.append(CelIssue(f"Syntax error: token recognition error at: '{text[position]}'", position))
            position += 1
            continue
        kind, value = match.lastgroup or "", match[0]
        if kind == "operator" or value in _WORDS:
            kind = value
        if kind != "space":
            tokens.append(Token(kind, value, position))
        position = match.end()
    tokens.append(Token("<EOF>", "<EOF>", len(text)))
    return tokens, problems
