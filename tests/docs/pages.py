"""Run the commands of a page as a reader would: in a shell, in an empty directory, with dray from an installed wheel.

A block that begins with ```console holds commands (`$ …`, with the lines of a here-document below them) and, after each,
some of the lines that it prints; `…` stands for anything. The commands of a block are pasted into the shell together, as
readers do, so a page must wait for what it shows. A block that begins with ```python or ```yaml and a comment with the name
of a file is that file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import SECONDS

ROOT = Path(__file__).resolve().parents[2]
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


@dataclass
class Command:
    """A command with what the page shows of its output."""

    text: str
    expected: list[str]


@dataclass
class File:
    """A file that the reader writes."""

    name: str
    text: str


def blocks(page: Path) -> list[list[Command] | File]:
    """Return the blocks of a page, in order: commands that are pasted together, or a file."""
    found: list[list[Command] | File] = []
    for kind, block in re.findall(r"^```(console|python|yaml)\n(.*?)^```", page.read_text(), re.S | re.M):
        name = _FILE.match(block)
        if kind == "console":
            found.append([_command(part.rstrip("\n").split("\n")) for part in re.split(r"^\$ ", block, flags=re.M)[1:]])
        elif name:
            found.append(File(name[1], block))
    return found


def _command(lines: list[str]) -> Command:
    """A command may go on: after a backslash at the end of a line, or until a here-document ends."""
    end = 1
    if (here := re.search(r"<<'?(\w+)'?", lines[0])) is not None:
        end = lines.index(here[1]) + 1
    while lines[end - 1].endswith("\\"):
        end += 1
    return Command("\n".join(lines[:end]), lines[end:])


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, directory: Path, bin_: Path) -> None:
        self.directory = directory
        self._bin = bin_
        home = directory / "home"
        home.mkdir()
        path = f"{bin_}:{ROOT / '.venv' / 'programs'}:{os.environ['PATH']}"
        self._env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "COLUMNS": "100", "TERM": "dumb"}
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *reason: object) -> None:
        self._end()
        self._shell.wait(SECONDS)
        clean = "dray list | awk 'NR > 1 { print $NF }' | while read d; do dray delete --dir $d; done"
        subprocess.run(["bash", "-c", clean], cwd=self.directory, env=self._env, timeout=2 * SECONDS, check=False)
        for pipe in (self._shell.stdin, self._shell.stdout):
            assert pipe is not None
            pipe.close()

    def follow(self, page: Path) -> int:
        """Do what a page says. Returns the number of commands."""
        number = 0
        for block in blocks(page):
            if isinstance(block, File):
                (self.directory / block.name).write_text(block.text)
                continue
            for command, (status, said) in zip(block, self.paste([one.text for one in block]), strict=True):
                assert status == 0, f"{command.text}\n{said}"
                expected = "\n".join(command.expected)
                assert shown(command.expected, said), f"{command.text}\n{said}\ninstead of\n{expected}"
            number += len(block)
        return number

    def paste(self, commands: list[str]) -> list[tuple[int, str]]:
        """Paste commands into the shell at once. Returns the exit status and the output of each.

        A command that reads standard input would take the rest of the paste, as it does in a terminal.
        """
        assert self._shell.stdin is not None
        self._shell.stdin.write("".join(f"{one}\nstatus=$?; echo; echo end-of-command $status\n" for one in commands))
        self._shell.stdin.flush()
        return [self._result(one) for one in commands]

    def _result(self, command: str) -> tuple[int, str]:
        """Read the output of a command up to the mark behind it; a command that never ends is ended."""
        assert self._shell.stdout is not None
        said: list[str] = []
        timer = threading.Timer(3 * SECONDS, self._end)
        timer.start()
        try:
            for line in self._shell.stdout:
                if line.startswith("end-of-command "):
                    return int(line.split()[1]), "".join(said).removesuffix("\n")
                said.append(line)
        finally:
            timer.cancel()
        raise AssertionError(f"did not end within {3 * SECONDS} s: {command}\n{''.join(said)}")

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)


def shown(expected: list[str], said: str) -> bool:
    """Whether the lines stand in the output in this order; columns may be wider."""
    lines = iter([" ".join(line.split()) for line in said.splitlines()])
    patterns = [re.escape(" ".join(line.split())).replace("…", ".*") for line in expected if line.strip()]
    return all(any(re.fullmatch(pattern, line) for line in lines) for pattern in patterns)


def installed(directory: Path) -> Path:
    """Build the wheel of this tree and install it; where its commands are. Packages that it needs are borrowed."""
    source, wheels, home = directory / "source", directory / "wheels", directory / "venv"
    source.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    _do([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, source])
    _do([sys.executable, "-m", "venv", "--without-pip", home])
    packages = next((home / "lib").glob("python3*")) / "site-packages"
    (packages / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    python = home / "bin" / "python"
    _do([*pip, "--python", python, "install", "-q", "--no-deps", "--force-reinstall", *wheels.glob("*.whl")])
    return home / "bin"


def _do(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * SECONDS, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
