"""Completion, as a shell asks for it, and what is said about words that do not exist."""

from __future__ import annotations

import os
import subprocess
import tempfile

import pytest

from tests.cli.running import DRAY, outcome
from tests.waiting import SECONDS


def completions(line: str) -> list[str]:
    """What a shell would offer at the end of a line; the answer comes in a file."""
    with tempfile.NamedTemporaryFile() as answer:
        env = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": answer.name,
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        subprocess.run([*DRAY], env={**os.environ, **env}, timeout=SECONDS, check=False, capture_output=True)
        return [word.strip() for word in answer.read().decode().splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert "explain" in completions("dray ex")
    assert "--detach" in completions("dray up --det")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_something_to_read_for_each_shell(shell: str) -> None:
    status, text = outcome("completion", shell)
    assert (status, "dray" in text) == (0, True)


def test_without_words_the_commands_are_listed() -> None:
    status, text = outcome()
    assert (status, "explain" in text) == (0, True)


def test_a_command_that_does_not_exist_is_answered_with_the_one_that_was_meant() -> None:
    assert outcome("exlpain", "pod", "x") == (2, "dray: there is no command exlpain; did you mean explain?\n")
