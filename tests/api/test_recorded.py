"""Recorded answers of Kubernetes v1.37: what the pure steps of a write decide is what Kubernetes decided."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import pytest

from dray.api.validation import Complaint
from dray.cel import check_selector
from tests.api.replay import Replay

RECORDINGS = pathlib.Path(__file__).parent.parent / "data" / "api.jsonl.gz"
# Cases that are about HTTP, stores, lists, deletion, apply or access, not about what an object may say.
_ELSEWHERE = (
    "generic/not-found",
    "generic/unknown-resource",
    "generic/conflict",
    "generic/name-mismatch",
    "generic/namespace-mismatch",
    "generic/not-json",
    "generic/strategic-patch-list-merge",
    "generic/apply",
    "generic/delete",
    "generic/slice-field-selectors",
    "generic/pagination",
    "generic/patch-rv",
    "generic/json-patch",
    "generic/unsupported-method",
    "generic/list",
    "generic/all-namespaces",
    "generic/version-of-group",
    "claim/status/reserve-while-deleting",
    "review/",
    "rbac/role-and-binding",
    "watch/",
)
# Texts in which Kubernetes shows a value the way Go happens to print it, or a diff of Go structs.
_TEXT_OF_GO = {
    "slice/two-terms",
    "pod/both-sources",
    "pod/no-source",
    "pod/claims-immutable",
}


def _cases() -> list[dict[str, Any]]:
    with gzip.open(RECORDINGS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if not case["name"].startswith(_ELSEWHERE) and not _needs_server(case)]


def _needs_server(case: dict[str, Any]) -> bool:
    return any("accept" in step or "raw" in step or step["method"] == "DELETE" for step in case["steps"])


def _check(expression: str) -> Complaint | None:
    refusal = check_selector(expression)
    return Complaint(refusal.reason, refusal.detail) if refusal is not None else None


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_answers_as_recorded(case: dict[str, Any]) -> None:
    replay = Replay(_check)
    for step, want in zip(case["steps"], case["want"], strict=True):
        got = replay.answer(step)
        assert got["code"] == want["code"], got["body"]
        if want["code"] < 400:
            assert got["body"] == want["body"]
            assert got.get("warning") == want.get("warning")
            continue
        assert got["body"]["reason"] == want["body"]["reason"]
        assert _causes(got["body"]) == _causes(want["body"])
        # Exceptions that are none any more must go from the list.
        assert (got["body"]["message"] == want["body"]["message"]) is (case["name"] not in _TEXT_OF_GO)


def _causes(body: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((cause["field"], cause["reason"]) for cause in (body.get("details") or {}).get("causes") or [])


def test_most_recorded_cases_are_replayed() -> None:
    assert len(_cases()) >= 115
