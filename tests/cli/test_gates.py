"""`dray gates` prints every gate, and what a choice makes of it."""

from __future__ import annotations

import argparse

import pytest

from dray.api.gates import GATES
from dray.cli import gates


def _run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    gates.add_parser(parser.add_subparsers())
    args = parser.parse_args(["gates", *arguments])
    return int(args.run(args))


def test_every_gate_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "STAGE", "ON", "NEEDS", "MEANING"]
    assert [line.split()[0] for line in lines[1:]] == [gate.name for gate in GATES]
    assert any("also DRAWorkloadResourceClaims" in line for line in lines)


def test_a_choice_shows_its_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--feature-gates", "DynamicResourceAllocation=false") == 0
    rows = {line.split()[0]: line.split()[2] for line in capsys.readouterr().out.splitlines()}
    assert (rows["DRAAdminAccess"], rows["DRAPrioritizedList"]) == ("no", "no")


def test_a_bad_choice_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--feature-gates", "X=true") == 2
    assert "unrecognized feature gate: X" in capsys.readouterr().err
