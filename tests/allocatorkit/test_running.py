"""Programs are asked one question a line, and what they do wrong is told."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import pytest

from dray.allocatorkit import ProgramError, ask_program, cases, read_answers
from dray.allocatorkit.judging import AnswerStanding
from dray.cli import main

ANSWERS = (
    "import json, sys\nfor line in sys.stdin:\n    id = json.loads(line)['id']\n    print(json.dumps({}), flush=True)\n"
)


def program(answer: str) -> list[str]:
    """A program that answers each question with the value of a Python expression."""
    return [sys.executable, "-c", ANSWERS.format(answer)]


def test_a_program_is_asked_about_every_case() -> None:
    report = ask_program(program("{'id': id, 'skip': 'no time'}"), islice(cases(), 30))
    assert report.counts == {AnswerStanding.SKIPPED: 30}
    assert [*report.lines()][-1] == "30 cases: 0 same, 0 different, 0 wrong, 30 skipped"
    assert report.passed()


@pytest.mark.parametrize(
    ("command", "seconds", "said"),
    [
        (program("{'id': 'another'}"), 30, "the answer is about 'another'"),
        (program("[1]"), 30, "expected a JSON object on one line"),
        ([sys.executable, "-c", "print('x')"], 30, "expected a JSON object on one line"),
        ([sys.executable, "-c", ""], 30, "the program ended"),
        ([sys.executable, "-c", "import sys; sys.stdin.read()"], 0.2, "no answer within 0.2 s"),
    ],
)
def test_a_program_that_breaks_the_protocol_is_told_so(command: list[str], seconds: float, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        ask_program(command, islice(cases(), 3), seconds)


def test_written_answers_are_compared_in_any_order() -> None:
    some = [*islice(cases(), 5)]
    lines = [json.dumps({"id": one.id, "skip": "s"}).encode() for one in reversed(some[1:])]
    report = read_answers([*lines, b""], some)
    assert [one.why for one in report.verdicts] == ["no answer", "s", "s", "s", "s"]


def test_the_answers_of_dray_are_those_of_kubernetes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "recorded"
    assert main(["allocator", "cases", str(directory)]) == 0
    answers = tmp_path / "answers"
    capsys.readouterr()
    assert main(["allocate", "--scenarios", str(directory / "allocations.jsonl")]) == 0
    assert main(["cel", "--cases", str(directory / "selectors.jsonl")]) == 0
    answers.write_text(capsys.readouterr().out)
    assert main(["allocator", "test", "--exact", "--answers", str(answers)]) == 0
    assert capsys.readouterr().out == "1,204 cases: 1,204 same, 0 different, 0 wrong, 0 skipped\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected -- COMMAND, or --answers FILE"),
        (["--without", "magic", "--", "cat"], "there is no feature magic; there are adminAccess"),
        (["--answers", "/nowhere/answers"], "No such file"),
        (["--", "/nowhere/allocator"], "No such file"),
    ],
)
def test_wrong_use_is_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocator", "test", *arguments]) == 2
    assert said in capsys.readouterr().err
