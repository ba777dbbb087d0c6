"""Build what a release consists of: `make release` writes it to dist/.

Nothing is published and nothing in the repository changes. The version stands in one place, pyproject.toml. The result:

- the source distribution and the wheel, checked for their metadata and for the files that the program reads at run time;
- the wheel installed from the lock file into a new environment, in which the command `dray` runs;
- `notes.md`, the section of CHANGELOG.md about this version;
- `bom.json`, a bill of materials (CycloneDX) of the locked dependencies;
- `SHA256SUMS` of all of these.

The build tools are installed into an environment of their own (build/release), so they never change that of the tests.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ("build", "twine", "cyclonedx-bom")
# One file of each kind that the program reads at run time, and that a mistake in the package data would leave out.
NEEDED = (
    "dray/allocatorkit/data/selectors.jsonl.gz",
    "dray/api/schema.json",
    "dray/docs/index.md",
    "dray/docs/screens/explain.svg",
    "dray/docs/screens/dashboard-map-light-1280.png",
    "dray/examples/driver/driver.py",
    "dray/web/assets/index.html",
    "dray/py.typed",
)


class ReleaseError(Exception):
    """The tree cannot be released as it is."""


def version() -> str:
    """Return the version that pyproject.toml states."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def notes(changelog: str, of_version: str) -> str:
    """Return the changelog's section about a version, without its heading."""
    found = re.search(rf"^## {re.escape(of_version)}(?![\w.]).*?$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md has no section about version {of_version}")
    return found[1].strip() + "\n"


def missing_from(wheel: Path) -> list[str]:
    """Return the files of NEEDED that a wheel does not contain."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(set(NEEDED) - set(archive.namelist()))


def checksums(directory: Path) -> str:
    """Return a line with checksum and name for each file of a directory, as `sha256sum` prints them."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def try_out(wheel: Path) -> None:
    """Install a wheel with the locked dependencies into a new environment and run its command."""
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=True)
        pip = [f"{name}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")])
        run([*pip, "--no-deps", str(wheel)])
        run([f"{name}/bin/dray", "--version"], Path(name))
        run([f"{name}/bin/dray", "example", "tour"], Path(name))
        run([f"{name}/bin/dray", "lint", "-f", "tour/pod.yaml"], Path(name))


def build_tools() -> str:
    """Install the build tools. Returns the Python interpreter that has them."""
    environment = ROOT / "build/release"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin/python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS])
    return python


def run(command: list[str], directory: Path = ROOT) -> None:
    subprocess.run(command, cwd=directory, check=True)


def main() -> None:
    number = version()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    text = notes(changelog, number)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    python = build_tools()
    run([python, "-m", "build", "--outdir", str(DIST)])
    (wheel,) = DIST.glob("*.whl")
    if lacking := missing_from(wheel):
        raise ReleaseError(f"{wheel.name} lacks {', '.join(lacking)}")
    run([python, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir())])
    try_out(wheel)
    (DIST / "notes.md").write_text(text)
    run(
        [
            python,
            "-m",
            "cyclonedx_py",
            "requirements",
            "requirements.lock",
            "--of",
            "JSON",
            "-o",
            str(DIST / "bom.json"),
        ]
    )
    (DIST / "SHA256SUMS").write_text(checksums(DIST))
    print(f"dray {number} is in {DIST}:")
    if f"## {number} (unreleased)" in changelog:
        print(f"CHANGELOG.md still calls {number} unreleased: write the date before you publish")
    print((DIST / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
