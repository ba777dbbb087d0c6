"""`dray lint` on files, against a recording and against a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.cli import main
from tests.cli.clusters import DRIVER, cluster

TYPO = f"""
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {{name: c}}
spec:
  devices:
    requests:
    - name: r
      deviceClassName: {DRIVER}
      selectors: [{{cel: {{expression: 'device.attributes["{DRIVER}"].?modle.orValue("") == "a100"'}}}}]
"""
RECORDING = f"""
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {{name: s}}
  spec:
    driver: {DRIVER}
    nodeName: n
    pool: {{name: n, generation: 1, resourceSliceCount: 1}}
    devices: [{{name: d, attributes: {{model: {{string: a100}}}}}}]
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "claim.yaml"
    file.write_text(TYPO)
    return file


def test_offline_an_old_version_is_rewritten(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "-f", str(manifest)]) == 0
    said = capsys.readouterr().out
    assert (
        f"{manifest}, document 1, line 2: warning: apiVersion: ResourceClaim c: resource.k8s.io/v1beta1 is old" in said
    )
    assert "    apiVersion: resource.k8s.io/v1\n" in said
    assert main(["lint", "--strict", "-f", str(manifest)]) == 1


@pytest.mark.wording
def test_a_recording_tells_which_attributes_exist(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "recording.yaml"
    recording.write_text(RECORDING)
    assert main(["lint", "-f", str(manifest), "--recording", str(recording), "-o", "json"]) == 1
    texts = [finding["text"] for finding in json.loads(capsys.readouterr().out)]
    assert any("attribute modle exists on 0 of 1 devices, did you mean model?" in text for text in texts)


@pytest.mark.wording
def test_a_cluster_tells_too(manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(tmp_path) as running:
        assert main(["lint", "-f", str(manifest), "--cluster", "--kubeconfig", str(running.admin)]) == 1
    assert "attribute modle exists on 0 of 8 devices, did you mean model?" in capsys.readouterr().out


def test_good_manifests_and_bad_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    assert main(["lint", "-f", str(good)]) == 0
    assert capsys.readouterr().out == "nothing to complain about\n"
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [")
    assert main(["lint", "-f", str(bad)]) == 2
    assert "bad.yaml" in capsys.readouterr().err
    assert main(["lint", "-f", str(tmp_path / "none.yaml")]) == 2


def test_findings_name_document_item_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: %s}\nspec:\n  devices:\n    requests:\n    - name: r\n      exactly:\n        deviceClassName: gpu\n        count: -1\n"
    indented = "".join(f"  {line}\n" for line in (wrong % "b").splitlines())
    items = "\n".join(["apiVersion: v1", "kind: List", "items:", *(f"- {indented.strip()}" for _ in range(2))])
    (tmp_path / "all.yaml").write_text(f"{wrong % 'a'}---\n{items}\n")
    assert main(["lint", "-f", str(tmp_path / "all.yaml")]) == 1
    said = [line.partition(": error")[0] for line in capsys.readouterr().out.splitlines() if ": error" in line]
    file = tmp_path / "all.yaml"
    assert said == [
        f"{file}, document 1, line 10",
        f"{file}, document 2, item 1, line 24",
        f"{file}, document 2, item 2, line 34",
    ]


def test_nothing_to_check_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.yaml").write_text("---\n")
    for name, says in (
        ("empty", "expected files that end with .yaml, .yml, .json, and there is none"),
        ("nosuch", "nosuch: No such file or directory"),
        ("blank.yaml", "there is nothing to check"),
    ):
        assert main(["lint", "-f", str(tmp_path / name)]) == 2
        assert says in capsys.readouterr().err


def test_a_field_of_a_feature_that_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taints = "{name: a, taints: [{key: k, effect: NoSchedule}]}"
    pool = "{name: p, generation: 1, resourceSliceCount: 1}"
    (tmp_path / "s.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\n"
        f"spec: {{driver: d.example.com, nodeName: n, pool: {pool}, devices: [{taints}]}}\n"
    )
    command = ["lint", "-f", str(tmp_path / "s.yaml"), "--strict"]
    assert main(command) == 0
    assert main([*command, "--feature-gates", "DRADeviceTaints=false"]) == 1
    assert "taints is dropped: the feature gate DRADeviceTaints is off" in capsys.readouterr().out
