"""`dray cel` answers files of cases and single expressions."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dray.allocatorkit.cases import SELECTORS, lines
from dray.cli import main

DEVICE = """
driver: gpu.example.com
attributes: {model: {string: a100}, healthy: {bool: true}}
capacity: {memory: {value: 40Gi}}
"""
MODEL = 'device.attributes["gpu.example.com"].model == "{}"'


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "device.yaml"
    path.write_text(DEVICE)
    return path


def test_answers_the_recorded_cases_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [*map(json.loads, lines(SELECTORS))]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    assert main(["cel", "--cases", str(path)]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer.pop("id") for answer in answers] == [case["id"] for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        if "match" in case["want"] and case["want"]["maxCost"] < 10**15:
            assert answer == case["want"]


@pytest.mark.parametrize(
    ("expression", "status", "said"),
    [
        (MODEL.format("a100"), 0, "match (cost 5)\n"),
        (MODEL.format("t4"), 1, "no match (cost 5)\n"),
        ('device.attributes["gpu.example.com"].nope', 1, "error: no such key: nope (cost 4)\n"),
    ],
)
def test_says_whether_a_device_matches(
    device: Path, capsys: pytest.CaptureFixture[str], expression: str, status: int, said: str
) -> None:
    assert main(["cel", expression, "--device", str(device)]) == status
    assert capsys.readouterr().out == said


def test_a_device_can_come_from_stdin_and_its_driver_from_an_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"attributes": {"model": {"string": "x"}}}'))
    assert main(["cel", 'device.attributes["d.org"].model == "x"', "--device", "-", "--driver", "d.org"]) == 0
    assert capsys.readouterr().out.startswith("match")


def test_without_a_device_an_expression_is_only_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", "device.driver == 'a'"]) == 0
    said = "valid, not evaluated: --device or --driver says of which device; costs at most 3\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("driver", "expression", "status", "said"),
    [
        ("gpu.example.com", 'device.driver == "gpu.example.com"', 0, "match (cost 4)\n"),
        ("nic.example.com", 'device.driver == "gpu.example.com"', 1, "no match (cost 4)\n"),
        ("gpu.example.com", MODEL.format("a100"), 1, "error: no such key: model (cost 5)\n"),
    ],
)
def test_a_driver_alone_is_a_device_without_attributes(
    capsys: pytest.CaptureFixture[str], driver: str, expression: str, status: int, said: str
) -> None:
    assert main(["cel", expression, "--driver", driver]) == status
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["device.nope"], "Invalid: compilation failed: ERROR: <input>:1:7: undefined field 'nope'"),
        ([], "either an expression or --cases is needed"),
        (["true", "--device", "/nowhere/device.yaml"], "No such file or directory"),
    ],
)
def test_wrong_use_is_explained(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["cel", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cases.jsonl:1: Input data was truncated"),
        ('{"id": "a"}', "cases.jsonl:1: expr: expected a string"),
        ('{"expr": "true", "attributes": {"a": {"int": "1"}}}', "cases.jsonl:1: Expected `int | null`, got `str`"),
        ('{"expr": "true", "driver": 1}', "cases.jsonl:1: Expected `str`, got `int`"),
    ],
)
def test_a_wrong_case_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(text + "\n")
    assert main(["cel", "--cases", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_device_that_is_no_device_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "device.yaml"
    for text, said in (("[1]", "expected a device as an object"), ("a: [", "while parsing")):
        path.write_text(text)
        assert main(["cel", "true", "--device", str(path)]) == 2
        assert said in capsys.readouterr().err
