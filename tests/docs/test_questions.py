"""docs/questions.md says what the library answers, and lists what it has."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from dray import questions
from dray.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "questions.md"
DATA = Path(__file__).parents[2] / "src/dray/examples/simulation"


@pytest.mark.wording
def test_the_walk_gives_the_answers_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in DATA.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    main(["record", "-f", "cluster.yaml", "-o", "recording.json.gz"])
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 10
    assert results.failed == 0


def test_every_public_name_is_on_the_page_and_can_be_imported() -> None:
    text = PAGE.read_text()
    assert [name for name in questions.__all__ if name not in text] == []
    assert all(getattr(questions, name) is not None for name in questions.__all__)
    assert sorted(name for names in questions._HOMES.values() for name in names) == sorted(questions.__all__)


def test_questions_need_no_event_loop_no_server_and_no_command_line() -> None:
    """In a process where asyncio, sockets and the packages above cannot be imported, each question can be."""
    forbidden = ["asyncio", "socket", "ssl", "argparse", "aiohttp", "grpc", "dray.cli", "dray.web", "dray.store"]
    code = f"""
import sys
for name in {forbidden}:
    sys.modules[name] = None
from dray import questions
for name in questions.__all__:
    getattr(questions, name)
print(len(questions.room_of(questions.Snapshot())))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr[-3000:]
