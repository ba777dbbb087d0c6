"""`dray allocate` answers scenarios and manifests, and explains what cannot be had."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dray.allocatorkit.cases import ALLOCATIONS, lines
from dray.cli import main

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, basic: {attributes: {model: {string: a100}}}}
  - {name: gpu-1, basic: {attributes: {model: {string: t4}}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: a100, namespace: default}
spec:
  spec:
    devices:
      requests:
      - name: r
        exactly:
          deviceClassName: gpu
          selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "a100"'}}]
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, %s}]
"""
TEMPLATE = "resourceClaimTemplateName: a100"


def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, *arguments: str
) -> tuple[int, list[dict[str, Any]], str]:
    path = tmp_path / "manifests.yaml"
    path.write_text(text)
    status = main(["allocate", "-f", str(path), "-o", "json", *arguments])
    printed = capsys.readouterr()
    return status, [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_recorded_scenarios_are_answered_line_by_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = [line.decode() for line in islice(lines(ALLOCATIONS), 40)]
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(asked) + "\n\n")
    assert main(["allocate", "--scenarios", str(path)]) == 0
    got = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    want = [json.loads(line) for line in asked]
    assert [each["id"] for each in got] == [each["id"] for each in want]
    assert [each["outcome"] for each in got] == [each["want"]["outcome"] for each in want]
    assert all(each["ms"] >= 0 and ("result" in each or "message" in each) for each in got)


@pytest.mark.parametrize("line", ["{", "[]", '{"id": 7}', '{"id": "x", "node": {"metadata": {"nam": 1}}}', "\udcff"])
def test_a_line_that_is_no_scenario_is_told_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line, errors="surrogateescape")
    assert main(["allocate", "--scenarios", str(path)]) == 2
    assert f"dray allocate: {path}, line 1: " in capsys.readouterr().err


def test_a_pod_gets_what_its_template_asks_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, (line,), errors = run(capsys, tmp_path, CLUSTER + POD % ("p", TEMPLATE), "--node", "n1")
    assert (status, errors) == (0, "")
    assert (line["id"], line["outcome"]) == ("default/p", "allocated")
    assert line["result"][0]["devices"]["results"][0]["device"] == "gpu-0"


@pytest.mark.wording
def test_pods_compete_and_the_loser_is_told_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = CLUSTER + POD % ("p", TEMPLATE) + POD % ("q", TEMPLATE)
    status, lines, errors = run(capsys, tmp_path, text)
    assert status == 1
    assert [line["outcome"] for line in lines] == ["allocated", "none"]
    reason = "2 published, 2 match class gpu, 1 match selector #0, 1 tolerated, 0 free"
    assert lines[1]["message"] == f"claim default/q-gpu: request r needs 1 device: {reason}"
    assert "default/q cannot be allocated" in errors
    assert "0 free  <- here" in errors


@pytest.mark.wording
def test_people_read_which_devices_each_request_gets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "manifests.yaml"
    path.write_text(CLUSTER + POD % ("p", TEMPLATE) + POD % ("q", TEMPLATE))
    assert main(["allocate", "-f", str(path)]) == 1
    said, errors = capsys.readouterr()
    assert said.startswith("default/p on n1:\n  claim p-gpu, request r: gpu.example.com/n1/gpu-0\n")
    assert "default/q cannot be allocated: " in said
    assert errors == ""


def test_claims_without_pods_are_served_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""
    used = (
        "status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: n1, device: gpu-0}]}}}"
    )
    status, (line,), _ = run(capsys, tmp_path, CLUSTER + one % "a" + one % "b")
    assert status == 0
    assert [each["devices"]["results"][0]["device"] for each in line["result"]] == ["gpu-0", "gpu-1"]
    status, (line,), _ = run(capsys, tmp_path, CLUSTER + (one % "a") + used + one % "b")
    assert [each["devices"]["results"][0]["device"] for each in line["result"]] == ["gpu-1"]


@pytest.mark.parametrize(
    ("text", "arguments", "complaint"),
    [
        (CLUSTER, (), "the manifests ask for nothing"),
        (CLUSTER + POD % ("p", TEMPLATE), ("--node", "n7"), "there is no node n7; the manifests have n1"),
        (CLUSTER + POD % ("p", "resourceClaimTemplateName: x"), (), "there is no ResourceClaimTemplate x"),
        (CLUSTER + POD % ("p", "resourceClaimName: x"), (), "there is no ResourceClaim x"),
        ("kind: Pod", (), "document 1: apiVersion and kind must be given"),
        ("{apiVersion: v1, kind: Nope}", (), "no kind Nope in v1 is known"),
        ("{apiVersion: v1, kind: Node, metadata: {nam: x}}", (), "nam"),
        ("a: [", (), "manifests.yaml"),
        ("7", (), "expected an object"),
        (CLUSTER, ("--feature-gates", "Nope=true"), "Nope"),
    ],
)
def test_wrong_input_is_told_and_gives_status_two(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, arguments: tuple[str, ...], complaint: str
) -> None:
    status, lines, errors = run(capsys, tmp_path, text, *arguments)
    assert (status, lines) == (2, [])
    assert complaint in errors


@pytest.mark.wording
def test_an_error_in_the_claims_is_an_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gates = ("--feature-gates", "DRAPrioritizedList=false")
    listed = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: default}
spec: {devices: {requests: [{name: r, firstAvailable: [{name: s, deviceClassName: gpu}]}]}}
"""
    status, (line,), errors = run(capsys, tmp_path, CLUSTER + listed, *gates)
    assert (status, line["outcome"]) == (1, "error")
    assert "the DRAPrioritizedList feature is disabled" in line["message"]
    assert line["message"] in errors


def test_a_file_that_is_missing_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["allocate", "-f", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
