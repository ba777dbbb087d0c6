"""Answers agree with those of cel-expr-python, another implementation, wherever both accept an expression."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.cel.asking import ask, device
from tests.cel.expressions import DEVICE, selectors

GPU = device({"model": {"string": "a100"}, "index": {"int": 3}, "healthy": {"bool": True}})


class Oracle:
    """The other implementation's process, started anew when it dies."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        program = Path(__file__).with_name("oracle_process.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), json.dumps(DEVICE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, expression: str) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(expression) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self.close()
            self._start()
            return {"refused": "it died"}
        answer: dict[str, object] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    oracle = Oracle()
    yield oracle
    oracle.close()


def test_the_oracle_answers(oracle: Oracle) -> None:
    assert oracle.answer("1 + 1 == 2 && device.driver.size() > 0") == {"value": True}
    assert "error" in oracle.answer("1 / 0 == 1")
    assert "refused" in oracle.answer("1 +")


@given(selectors)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_random_selectors_get_the_same_answer(oracle: Oracle, expression: str) -> None:
    theirs = oracle.answer(expression)
    assume("refused" not in theirs)
    ours = ask(expression, GPU)
    if isinstance(ours, str):
        assert "error" in theirs, (ours, theirs)
    else:
        assert theirs == {"value": ours}
