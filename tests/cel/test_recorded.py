"""The recorded answers of Kubernetes v1.37: verdicts, texts and costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.allocatorkit.cases import SELECTORS, lines
from dray.cel import DeviceView, EvaluationError, compile_selector
from tests.cel.asking import device

CASES = [*map(json.loads, lines(SELECTORS))]
RUNNABLE = [case for case in CASES if "compileError" not in case["want"]]
WITHOUT_BOUND = 10**15  # beyond this, an estimate says no more than "too much"


def _view(case: dict[str, Any]) -> DeviceView:
    return device(case["attributes"], case["capacity"], case["driver"], case.get("allowMultipleAllocations"))


def _name(case: dict[str, Any]) -> str:
    return str(case["id"])


def _place(text: str) -> str:
    """A syntax error's wording is the parser generator's own; that it is one, and where, is the fact."""
    return text.partition("Syntax error")[0] if "Syntax error" in text else text


@pytest.mark.parametrize("case", [case for case in CASES if "compileError" in case["want"]], ids=_name)
def test_refuses_what_kubernetes_refuses_in_its_words(case: dict[str, Any]) -> None:
    error = compile_selector(case["expr"]).error
    assert _place(str(error)) == _place(case["want"]["compileError"])


@pytest.mark.parametrize("case", RUNNABLE, ids=_name)
def test_complete_evaluation_gives_the_same_answer_at_the_same_cost(case: dict[str, Any]) -> None:
    outcome = compile_selector(case["expr"]).evaluate(_view(case))
    want = case["want"]
    assert (outcome.match, outcome.error, outcome.cost) == (want.get("match"), want.get("runtimeError"), want["cost"])


@pytest.mark.parametrize("case", RUNNABLE, ids=_name)
def test_quick_evaluation_gives_the_same_answer(case: dict[str, Any]) -> None:
    selector = compile_selector(case["expr"])
    if "match" in case["want"]:
        assert selector.matches(_view(case)) is case["want"]["match"]
    else:
        with pytest.raises(EvaluationError) as caught:
            selector.matches(_view(case))
        assert str(caught.value) == case["want"]["runtimeError"]


@pytest.mark.parametrize("case", RUNNABLE, ids=_name)
def test_estimates_the_same_cost(case: dict[str, Any]) -> None:
    estimate = compile_selector(case["expr"]).max_cost
    assert estimate == case["want"]["maxCost"] or min(estimate, case["want"]["maxCost"]) > WITHOUT_BOUND
