"""What `dray explain -o json` prints is as its schema says, and reads back as the same types."""

from __future__ import annotations

import json

import msgspec
import pytest

from dray.api.reasons.causes import CAUSES
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.cli import main
from dray.inspect.explain import explain_claim, explain_pod
from dray.inspect.explanation import WaitExplanation
from dray.inspect.layout import data_of
from dray.inspect.schema import explanation_schema
from dray.inspect.snapshot import Snapshot
from tests.inspect.clusters import cluster
from tests.inspect.test_explain import SITUATIONS
from tests.json_schema import problems

SCHEMA = explanation_schema()


def check(found: WaitExplanation) -> str:
    """Compare an answer with the schema and with itself, written and read. Returns the code of its cause."""
    data = json.loads(json.dumps(data_of(found)))
    assert problems(data, SCHEMA, SCHEMA) == []
    again = msgspec.convert(data, WaitExplanation)
    assert again.cause == found.cause
    assert again.help == found.help
    assert (again.cause.text, [one.text for one in again.help]) == (found.cause.text, [one.text for one in found.help])
    return found.cause.code


def test_answers_about_known_situations_are_valid() -> None:
    codes = {check(explain_pod(Snapshot.of(*one.objects), "default", "p")) for one in SITUATIONS}
    assert len(codes) > 30


def test_answers_about_random_clusters_are_valid() -> None:
    codes = set()
    for seed in range(25):
        snapshot = Snapshot.of(*cluster(seed))
        for pod in snapshot.all(Pod):
            codes.add(check(explain_pod(snapshot, pod.metadata.namespace, pod.metadata.name)))
        for claim in snapshot.all(ResourceClaim):
            codes.add(check(explain_claim(snapshot, claim.metadata.namespace, claim.metadata.name)))
    assert len(codes) > 15


def test_the_schema_refuses_what_is_wrong() -> None:
    found = data_of(explain_pod(Snapshot.of(*SITUATIONS[0].objects), "default", "p"))
    assert problems({**found, "waits": "yes"}, SCHEMA, SCHEMA)
    assert problems({**found, "cause": {"code": "NoSuchResource"}}, SCHEMA, SCHEMA)
    assert problems({**found, "cause": {"code": "NoSuchCode"}}, SCHEMA, SCHEMA)
    assert problems({**found, "more": 1}, SCHEMA, SCHEMA)


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(SCHEMA))
    codes = {part["properties"]["code"]["enum"][0] for part in printed["$defs"].values() if "code" in part.get("properties", {}) and len(part["properties"]["code"].get("enum", "")) == 1}  # fmt: skip
    assert CAUSES.keys() <= codes
