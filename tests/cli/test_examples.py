"""The help of every command ends with examples that could be typed as they are."""

from __future__ import annotations

import shlex

import pytest

from dray.cli import commands, parser_of
from dray.cli._examples import EXAMPLES
from tests.cli.running import outcome


@pytest.mark.parametrize("command", commands())
def test_the_help_has_two_examples_that_are_valid_command_lines(command: str) -> None:
    status, text = outcome(command, "--help")
    lines = [line.strip() for line in text.partition("\nexamples:\n")[2].splitlines()]
    assert status == 0
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line.removeprefix('eval "$(').replace(')"', ""), comments=True)
        assert words[:2] == ["dray", command]
        until = words.index(">") if ">" in words else len(words)
        parser_of("dray", [command]).parse_args(words[1:until])


def test_examples_are_of_commands_that_exist() -> None:
    assert EXAMPLES.keys() <= set(commands())
