"""The command itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dray.cli import commands, main
from tests.cli.running import outcome
from tests.waiting import SECONDS


def test_every_command_is_listed_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert {"up", "apiserver", "gates"} <= set(commands())
    assert all(f"\n    {name} " in text or f"\n    {name}\n" in text for name in commands())


def test_an_unknown_command_is_refused() -> None:
    code, text = outcome("fly")
    assert code == 2
    assert text.startswith("dray: there is no command fly; there are allocate, allocator, apiserver, ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "--nodez", "3"], "dray up: there is no option --nodez; did you mean --nodes?\n"),
        (["snapshot", "check", "--dri=x", "f"], "dray snapshot: there is no option --dri; did you mean --dir?\n"),
        (["explain", "pod", "a", "b"], "dray explain: b is one argument too many\n"),
        (["top", "pols"], "there is no pols; did you mean pools?\n"),
        (["driver", "tset"], "there is no tset; did you mean test?\n"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(words: list[str], says: str) -> None:
    code, text = outcome(*words)
    assert (code, text.endswith(says)) == (2, True), text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["replay", "nosuch"], "dray replay: nosuch: No such file or directory\n"),
        (["what-if", "-f", "nosuch"], "dray what-if: nosuch: No such file or directory\n"),
        (["dashboard", "--recording", "nosuch"], "dray dashboard: nosuch: No such file or directory\n"),
        (["snapshot", "save", "--dir", "nosuch", "copy.db"], "dray snapshot save: nosuch does not exist\n"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) != 0
    assert capsys.readouterr().err == says


def test_the_cluster_of_the_directory_is_offered_where_no_kubeconfig_is_set(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / ".dray" / "kubeconfig"
    file.parent.mkdir()
    file.write_text("")
    assert main(["top", "pools"]) == 1
    assert capsys.readouterr().err.endswith(f"for the cluster of this directory: export KUBECONFIG={file}\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("dray 0.")


@pytest.mark.parametrize("arguments", ["['--help']", "['up', '--help']"])
def test_help_imports_nothing_heavy(arguments: str) -> None:
    program = f"""
import sys
from dray.cli import main
try:
    main({arguments})
except SystemExit:
    pass
heavy = [m for m in ('uvicorn', 'grpc', 'kubernetes', 'cryptography', 'aiohttp', 'yaml', 'dray.apiserver') if m in sys.modules]
sys.exit(f'imported: {{heavy}}' if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
