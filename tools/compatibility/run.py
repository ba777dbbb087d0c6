#!/usr/bin/env python3
"""Try every client of clients.toml against `dray up`, write results.json, and write docs/compatibility.md from it.

Clients are installed from their registries into a temporary directory. ARGS name some clients; without arguments, all are
tried. With --page, nothing is tried: only the page is written, from the results of the last run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
RESULTS = HERE / "results.json"
SECONDS = 300
INTRODUCTION = """# Compatibility

This page lists programs that were tried with dray, unchanged. `tools/compatibility/run.py` tried the clients and writes this page: it
installs the given version, starts `dray up` with simulated nodes and a node agent, and tries each operation once. Each row of the
other lists except the last names a test, which runs with every change. The last list is of an earlier version. **Programs that are not listed were
not tried.** All clients use dray like any Kubernetes v1.37 cluster; no client has special support for dray.
"""


def page() -> str:
    """Return the page, built from the results of the last run and others.toml."""
    return "\n".join([INTRODUCTION, *_clients(), *_others()])


def _clients() -> Iterator[str]:
    results = json.loads(RESULTS.read_text())
    yield from ("## Clients", "", "| client | version | works | does not work |", "|---|---|---|---|")
    for client in clients():
        outcomes = results[client["name"]]["operations"]
        failed = [f"{one['operation']} ({one['why']})" for one in outcomes if not one["works"]]
        works = f"{len(outcomes) - len(failed)} of {len(outcomes)}"
        yield f"| {client['name']} | {', '.join(client['packages'])} | {works} | {'; '.join(failed) or '-'} |"
    yield from ("", "The operations, and the clients that have a function for each of them:", "")
    yield from ("| operation | tried with |", "|---|---|")
    for operation in _operations(results):
        users = [
            name for name, one in results.items() if operation in {each["operation"] for each in one["operations"]}
        ]
        yield f"| {operation} | {', '.join(name.partition(' (')[0] for name in users)} |"
    yield ""


def _operations(results: dict[str, Any]) -> list[str]:
    """The operations of all clients, in the order in which they were tried."""
    return list(dict.fromkeys(one["operation"] for result in results.values() for one in result["operations"]))


def _others() -> Iterator[str]:
    for section in tomllib.loads((HERE / "others.toml").read_text())["section"]:
        yield from (
            f"## {section['title']}",
            "",
            "| name | version | works | does not work | test |",
            "|---|---|---|---|---|",
        )
        for row in section["rows"]:
            test = f"`{row['test']}`" if row["test"] else "-"
            yield f"| {row['name']} | {row['version']} | {row['works']} | {row['fails'] or '-'} | {test} |"
        yield ""


def clients() -> list[dict[str, Any]]:
    """The clients of clients.toml."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "clients.toml").read_text())["client"]
    return found


def install(packages: list[str], script: str, place: Path) -> list[str]:
    """Install the packages of a client below `place`. Returns the command that runs its script."""
    place.mkdir()
    if script.endswith(".mjs"):
        shutil.copy(HERE / "clients" / script, place)
        (place / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--silent", *packages], cwd=place, check=True)
        return ["node", str(place / script)]
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    python = str(place / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
    return [python, str(HERE / "clients" / script)]


def attempt(command: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    """Run a client's script. Returns what it printed: an outcome for each operation."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{command[-1]} was not done after {SECONDS} s; it printed:\n{error.stdout!r}") from None
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not outcomes:
        raise SystemExit(f"{command[-1]} ended with {done.returncode}:\n{done.stderr}")
    for one in outcomes:
        if trace := one.pop("trace", None):
            print(trace, file=sys.stderr)
    return outcomes


def try_all(chosen: list[dict[str, Any]]) -> None:
    """Try the chosen clients, each in a namespace of its own of one cluster, and write the results."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        dray = [str(ROOT / ".venv" / "bin" / "dray")]
        cluster = ["--dir", str(work / "cluster")]
        up = ["up", *cluster, "--port", "0", "--nodes", "1", "--devices", "8", "--agents", "1", "--detach"]
        subprocess.run([*dray, *up], check=True)
        environment = os.environ | {"KUBECONFIG": str(work / "cluster" / "kubeconfig")}
        try:
            for number, client in enumerate(chosen):
                namespace = f"client-{number}"
                subprocess.run(["kubectl", "create", "namespace", namespace], env=environment, check=True)
                command = install(client["packages"], client["script"], work / namespace)
                outcomes = attempt(command, environment | {"COMPATIBILITY_NAMESPACE": namespace})
                results[client["name"]] = {"packages": client["packages"], "operations": outcomes}
        finally:
            subprocess.run([*dray, "down", *cluster], check=True)
    ordered = {one["name"]: results[one["name"]] for one in clients() if one["name"] in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    if "--page" not in arguments:
        chosen = [one for one in clients() if not arguments or any(word in one["name"] for word in arguments)]
        if not chosen:
            raise SystemExit(f"no client of clients.toml is called {' or '.join(arguments)}")
        try_all(chosen)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
