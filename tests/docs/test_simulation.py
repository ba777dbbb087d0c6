"""Every command in docs/simulation.md prints what the page shows."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dray.cli import main
from dray.testing import Cluster
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "simulation.md"
DATA = Path(__file__).parent / "simulation"


def examples() -> list[tuple[str, str]]:
    """The commands of the page with their output, in order."""
    text = PAGE.read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M) if part]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints. One that follows a cluster breaks off its connections, and so has a process of its own."""
    if "--follow" in arguments:
        return subprocess.run([sys.executable, "-m", "dray", *arguments], capture_output=True, text=True).stdout
    main(arguments)
    return capsys.readouterr().out


@pytest.mark.wording
def test_every_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in DATA.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    found = examples()
    assert found
    with Cluster(nodes=2) as live:  # for the commands that follow a cluster
        wait_until(lambda: len(live.list("resourceslices")) == 2 and len(live.list("namespaces")) == 4)
        monkeypatch.setenv("KUBECONFIG", str(live.kubeconfig))
        for command, expected in found:
            program, *arguments = shlex.split(command)
            assert program == "dray"
            assert printed(arguments, capsys) == expected, command


@pytest.mark.wording
def test_the_library_answers_as_the_page_shows() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 5
    assert results.failed == 0
