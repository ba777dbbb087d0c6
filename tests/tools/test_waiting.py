"""There are two ways to wait, both in `dray.background`: nothing else starts threads or processes, or hides its inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dray"
MODULES = {"concurrent", "contextvars", "multiprocessing", "subprocess"}
CALLS = {
    *("to_thread", "run_in_executor", "create_subprocess_exec", "create_subprocess_shell"),
    *("Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "ContextVar"),
}
ALLOWED = {
    "client/brief.py": "short commands ask in threads, without the library that long-lived clients import",
    "background/": "the worker thread and the worker process",
    "assembly/detached.py": "starts a cluster in the background",
    "assembly/component.py": "writes hundreds of thousands of figures beside the event loop",
    "assembly/dashboard.py": "imports the dashboard beside the event loop",
    "node/": "runtimes run containers, and disks are waited for",
    "store/scribe.py": "the process that writes the file",
    "store/sqlite.py": "starts the scribe",
    "testing/cluster.py": "an event loop in a thread, beside a test that has none",
    "allocatorkit/running.py": "starts the allocator that is tested, and reads its answers",
    "driverkit/subject.py": "starts the driver that is tested",
    "apiserver/watchdog.py": "looks at the event loop from outside",
    "controllers/volumes.py": "waits for disks",
}


def ways(text: str) -> Iterator[str]:
    """The names by which a module starts threads and processes, or has inputs that no caller sees."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in MODULES:
                    yield module
                yield from (one.name for one in names if one.name in CALLS)
            case ast.Attribute(attr=name) if name in CALLS:
                yield name
            case ast.Attribute(value=ast.Name(id="os"), attr="fork" | "forkpty" | "posix_spawn" as name):
                yield name


def found() -> dict[str, list[str]]:
    files = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    return {name: using for name, path in files.items() if (using := [*ways(path.read_text())])}


def test_only_the_background_and_a_few_named_files_start_threads_and_processes() -> None:
    others = {name: using for name, using in found().items() if not name.startswith(tuple(ALLOWED))}
    assert others == {}


def test_no_exception_is_left_over() -> None:
    using = found()
    assert [name for name in ALLOWED if not any(file.startswith(name) for file in using)] == []


def test_nothing_has_inputs_in_context_variables() -> None:
    assert {name for name, using in found().items() if {"ContextVar", "contextvars"} & {*using}} == set()


@pytest.mark.parametrize(
    "text",
    [
        "from concurrent.futures import ThreadPoolExecutor",
        "import multiprocessing.pool",
        "import asyncio\nasyncio.to_thread(print)",
        "import os\nos.fork()",
        "from contextvars import ContextVar",
        "import threading\nthreading.Thread(target=print).start()",
    ],
)
def test_ways_are_found(text: str) -> None:
    assert [*ways(text)]
