"""Every command in docs/autoscaling.md prints what the page shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from dray.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "autoscaling.md"
DATA = Path(__file__).parent / "autoscaling"


@pytest.mark.wording
def test_every_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in DATA.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M) if part]
    assert len(parts) >= 3
    for part in parts:
        command, _, expected = part.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "dray"
        main(arguments)
        assert capsys.readouterr().out == expected, command


def test_the_files_of_the_page_are_those_of_the_test() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert (DATA / "groups.yaml").read_text() in shown


def test_the_library_answers_as_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 5
    assert results.failed == 0
