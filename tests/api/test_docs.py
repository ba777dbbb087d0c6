"""The examples on the page about the API objects work as they stand there."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.kubectls import PROGRAMS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"
USE_ROBOTS = """
import os
import subprocess

from dray.api.errors import ApiError
from dray.testing import Cluster

def robot(name, **spec):
    return {"apiVersion": "toys.example.com/v1", "kind": "Robot", "metadata": {"name": name}, "spec": spec}

with Cluster() as running:
    running.apply(robot("r2", model="astromech"))
    found = running.get("robots", "r2")
    assert found["spec"] == {"model": "astromech", "legs": 2}, found
    running.patch("robots", "r2", {"spec": {"legs": 3}})
    assert running.get("robots", "r2")["metadata"]["generation"] == 2
    try:
        running.apply(robot("nobody", legs=-1))
    except ApiError as error:
        print(error)
    try:
        running.apply(robot("flamingo", model="bird", legs=1))
    except ApiError as error:
        print(error)
    kubectl = (os.environ["KUBECTL"], "--kubeconfig", running.kubeconfig)
    print(subprocess.run([*kubectl, "get", "rb"], capture_output=True, text=True, check=True).stdout)
    named = [*kubectl, "get", "robots", "--field-selector=spec.model=other", "--output=name"]
    assert subprocess.run(named, capture_output=True, text=True, check=True).stdout == ""
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_example_runs() -> None:
    scope: dict[str, object] = {}
    exec(compile(blocks("python")[0], str(PAGE), "exec"), scope)
    assert scope["errors"] == []


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    """The sources of dray, of which those of `dray.api` can be changed."""
    package = tmp_path / "src" / "dray"
    package.mkdir(parents=True)
    for entry in (ROOT / "src" / "dray").iterdir():
        if entry.name == "api":
            shutil.copytree(entry, package / "api")
        elif entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "generate_types.py", tmp_path / "tools")
    return tmp_path


def run(source: pathlib.Path, *arguments: str) -> str:
    programs = {"KUBECTL": str(PROGRAMS / "kubectl"), "HOME": str(source)}
    environment = {**os.environ, **programs, "PYTHONPATH": str(source / "src")}
    done = subprocess.run([sys.executable, *arguments], env=environment, cwd=source, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(not (PROGRAMS / "kubectl").exists(), reason="there is no kubectl")
def test_a_kind_is_one_file_and_one_schema_entry(source: pathlib.Path) -> None:
    api = source / "src" / "dray" / "api"
    table = (api / "schema.json").read_text().rstrip().removesuffix("}").rstrip()
    (api / "schema.json").write_text(f"{table},\n{blocks('json')[0]}}}\n")
    (api / "kinds" / "robot.py").write_text(blocks("python")[1])
    run(source, "tools/generate_types.py")
    told = run(source, "-c", USE_ROBOTS)
    assert re.search(r"NAME +MODEL +LEGS +AGE\nr2 +astromech +3 +\d+s", told)
    assert "spec.model: Required value" in told
    assert "spec.legs: Invalid value: -1: must be greater than or equal to 0" in told
    assert "spec.legs: Invalid value: 1: must not be 1" in told
