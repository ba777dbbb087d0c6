"""Files that do not exist or are not YAML: every command names the file, says why in one line, and exits with 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli import main

FILES = [
    "allocate -f FILE",
    "autoscale simulate --groups FILE",
    "cel true --device FILE",
    "lint -f FILE",
    "record -o out.json -f FILE",
    "scheduler --config FILE",
    "top pools --kubeconfig FILE",
    "up --autoscale FILE",
    "up --config FILE",
    "up --scheduler-config FILE",
    "what-if -f FILE --profile dgx-h100",
]
OTHER_FORMS = [
    "allocate --scenarios FILE",
    "allocator test --answers FILE",
    "cel --cases FILE",
    "controller-manager --root-ca-file FILE",
    "dashboard --recording FILE",
    "driver example --node n --kubeconfig FILE",
    "explain pod x --kubeconfig FILE",
    "replay FILE",
    "snapshot check FILE",
    "snapshot restore FILE --dir new",
    "trace read philly FILE -o out.json",
    "up --token-auth-file FILE",
]


def _refusal(command: str, file: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that cannot use a file. Returns the message."""
    assert main([file if word == "FILE" else word for word in command.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"dray {command.split()[0]}")
    assert file in said
    return said


@pytest.mark.parametrize("command", [*FILES, *OTHER_FORMS])
def test_a_file_that_does_not_exist_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = _refusal(command, "missing.file", capsys)
    assert "no such file" in said.lower()
    assert "Errno" not in said
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("command", FILES)
def test_a_mistake_in_yaml_is_told_with_file_and_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("a: [b\n c: d")
    said = _refusal(command, "bad.yaml", capsys)
    assert "bad.yaml: not valid YAML: line 2, column 3: " in said
    assert len(said.splitlines()) == 1
