"""Break the program on purpose, one small change at a time, and see whether a test notices.

The files beside this one list the changes (`mutants`): in which function of which module, which text becomes which, and
the test that must fail then. Each is applied to a copy of the tree, and its test alone is run there. A change that no
test notices *survives*: either a test is missing, or the change makes no difference, which its `equivalent` then
explains. A text that is not found exactly once is an error, and so is a test that fails without the change.

`make mutants` runs all, `make mutants ARGS="store rbac"` those whose name or file contains one of the words.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "tools", "docs", "bench", "deploy", "pyproject.toml", "README.md", "Makefile")
SECONDS = 180
PATIENCE = 20  # seconds that a test waits for what never comes, as it does with many changes
FAILED = 1  # pytest's exit status when tests ran and some failed


class MutantError(Exception):
    """What is wrong with the description of a mutant."""


@dataclass(frozen=True)
class Mutant:
    """One change: `old` becomes `new` in a function, `module:Class.function`; an empty function is the whole module."""

    name: str
    where: str
    old: str
    new: str
    test: str = ""
    equivalent: str = ""

    @property
    def file(self) -> Path:
        return Path("src", *self.where.partition(":")[0].split(".")).with_suffix(".py")

    def applied(self, source: str) -> str:
        """The changed source of the module."""
        start, end = self._extent(source)
        body = source[start:end]
        if body.count(self.old) != 1:
            raise MutantError(
                f"{self.name}: {self.old!r} is {body.count(self.old)} times in {self.where}, expected once"
            )
        changed = source[:start] + body.replace(self.old, self.new) + source[end:]
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise MutantError(f"{self.name}: the change is no Python: {error}") from error
        return changed

    def _extent(self, source: str) -> tuple[int, int]:
        """Where the function begins and ends."""
        name = self.where.partition(":")[2]
        if not name:
            return 0, len(source)
        for qualified, node in _functions(ast.parse(source)):
            if qualified == name:
                lines = [0]
                for line in source.splitlines(keepends=True):
                    lines.append(lines[-1] + len(line))
                return lines[node.lineno - 1], lines[node.end_lineno or len(lines) - 1]
        raise MutantError(f"{self.name}: there is no {name} in {self.file}")


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def read(words: Sequence[str] = (), place: Path = Path(__file__).parent) -> list[Mutant]:
    """The mutants whose name or file contains one of the words; all if there are none."""
    found = []
    for file in sorted(place.glob("*.toml")):
        for entry in tomllib.loads(file.read_text())["mutants"]:
            mutant = Mutant(**entry)
            if not words or any(word in f"{file.stem}/{mutant.name} {mutant.where}" for word in words):
                found.append(mutant)
    if twice := [name for name, count in Counter(mutant.name for mutant in found).items() if count > 1]:
        raise MutantError(f"{twice[0]}: two mutants have this name")
    if unfinished := [mutant.name for mutant in found if bool(mutant.test) == bool(mutant.equivalent)]:
        raise MutantError(f"{unfinished[0]}: expected either a test or the reason why it is equivalent")
    return found


class Tree:
    """A copy of the tree, in which tests are run."""

    def __init__(self, directory: Path, source: Path = ROOT) -> None:
        self._directory = directory
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (source / name).exists():
                shutil.copyfile(source / name, directory / name)

    def verdict(self, mutant: Mutant) -> str:
        """`killed`, `survived`, or what is wrong with the mutant."""
        file = self._directory / mutant.file
        try:
            source = file.read_text()
            changed = mutant.applied(source)
        except OSError:
            return f"error: there is no {mutant.file}"
        except MutantError as error:
            return f"error: {error}"
        file.write_text(changed)
        try:
            status, output = self.tested(mutant.test)
        finally:
            file.write_text(source)
        if status in (0, FAILED):
            return "survived" if status == 0 else "killed"
        return f"error: {mutant.test} cannot be run: {output.strip().splitlines()[-1] if output.strip() else status}"

    def tested(self, *tests: str) -> tuple[int, str]:
        """The exit status of the tests, and what they printed. A test that does not come to its end has failed.

        Temporary files have a place of their own: where several runs of pytest share one and clean it up at the same time,
        one of them can fail although its tests passed.
        """
        with tempfile.TemporaryDirectory(prefix="dm-", ignore_cleanup_errors=True) as temporary:
            return self._run(tests, temporary)

    def _run(self, tests: Sequence[str], temporary: str) -> tuple[int, str]:
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        places = {
            "PYTHONPATH": str(self._directory / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DEBUG_TEMPROOT": temporary,
        }
        environment = {**os.environ, **places, "DRAY_PATIENCE": str(PATIENCE)}
        options = {"cwd": self._directory, "env": environment, "text": True}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:  # type: ignore[call-overload]
            try:
                output, _ = process.communicate(timeout=SECONDS * max(1, len(tests) // 8))
            except subprocess.TimeoutExpired:
                process.kill()
                return FAILED, "it did not end"
        return process.returncode, output


@contextmanager
def trees(count: int) -> Iterator[Queue[Tree]]:
    """As many copies as run at once."""
    with tempfile.TemporaryDirectory(prefix="dray-mutants-") as directory:
        free: Queue[Tree] = Queue()
        for number in range(count):
            free.put(Tree(Path(directory, str(number))))
        yield free


def verdicts(mutants: Sequence[Mutant], jobs: int) -> dict[str, str]:
    """What became of each; printed as it is known."""
    with trees(jobs) as free, ThreadPoolExecutor(jobs) as pool:

        def verdict(mutant: Mutant) -> tuple[str, str]:
            if mutant.equivalent:
                return mutant.name, f"equivalent: {mutant.equivalent}"
            tree = free.get()
            try:
                found = tree.verdict(mutant)
            finally:
                free.put(tree)
            print(f"{mutant.name}: {found}", flush=True)
            return mutant.name, found

        return dict(pool.map(verdict, mutants))


def main() -> int:
    parser = argparse.ArgumentParser(description="break the program on purpose and see whether tests notice")
    parser.add_argument("words", nargs="*", help="only mutants whose name or file contains one of these")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="how many at once (%(default)s)")
    args = parser.parse_args()
    try:
        mutants = read(args.words)
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2
    tests = sorted({mutant.test for mutant in mutants if mutant.test})
    with trees(1) as free:
        status, output = free.get().tested(*tests) if tests else (0, "")
    if status:
        print(output, f"the tests do not pass without any change: {status}", sep="\n", file=sys.stderr)
        return 2
    found = verdicts(mutants, args.jobs)
    kinds = Counter(verdict.partition(":")[0] for verdict in found.values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())), f"of {len(found)}")
    for name, verdict in found.items():
        if verdict.startswith(("survived", "error")):
            print(f"  {name}: {verdict}")
    return 1 if kinds["survived"] or kinds["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
