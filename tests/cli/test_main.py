"""The command itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dray.cli import commands, main
from tests.cli.running import outcome
from tests.waiting import SECONDS


def test_every_command_is_listed_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert {"up", "apiserver", "gates"} <= set(commands())
    assert all(f"\n    {name} " in text or f"\n    {name}\n" in text for name in commands())


def test_an_unknown_command_is_refused() -> None:
    code, text = outcome("fly")
    assert code == 2
    assert text.startswith("dray: there is no command fly; there are allocate, apiserver, ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "--nodez", "3"], "dray up: there is no option --nodez; did you mean --nodes?\n"),
        (["snapshot", "check", "--dri=x", "f"], "dray snapshot: there is no option --dri; did you mean --dir?\n"),
        (["explain", "pod", "a", "b"], "dray explain: b is one argument too many\n"),
        (["top", "pols"], "there is no pols; did you mean pools?\n"),
        (["driver", "tset"], "there is no tset; did you mean test?\n"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(words: list[str], says: str) -> None:
    code, text = outcome(*words)
    assert (code, text.endswith(says)) == (2, True), text


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("dray 0.")


@pytest.mark.parametrize("arguments", ["['--help']", "['up', '--help']"])
def test_help_imports_nothing_heavy(arguments: str) -> None:
    program = f"""
import sys
from dray.cli import main
try:
    main({arguments})
except SystemExit:
    pass
heavy = [m for m in ('uvicorn', 'grpc', 'kubernetes', 'cryptography', 'aiohttp', 'yaml', 'dray.apiserver') if m in sys.modules]
sys.exit(f'imported: {{heavy}}' if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
