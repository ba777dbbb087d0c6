"""dray and its locked dependencies as files below a root: wheels, unpacked and compiled, and the command."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.image.debian import ImageError

OLDEST_LIBC, NEWEST_LIBC = 17, 36  # of the manylinux platforms whose wheels run on the Debian releases in question
_COPIED = ("src", "docs", "pyproject.toml", "README.md", "LICENSE")
_COMMAND = "#!/usr/bin/{python} -I\nimport sys\n\nfrom dray.cli import main\n\nsys.exit(main())\n"


def place_of(python: str) -> str:
    """Return the directory below the root in which Debian's Python finds packages of the machine's owner."""
    return f"usr/local/lib/{python}/dist-packages"


def locked_wheels(lock: Path, python: str, directory: Path) -> list[Path]:
    """Download the wheels of a lock file, whose hashes it states, unless they are there. Returns all of them."""
    directory /= hashlib.sha256(lock.read_bytes()).hexdigest()[
        :16
    ]  # so that wheels of another lock file are not among them
    directory.mkdir(parents=True, exist_ok=True)
    machine, version = platform.machine(), python.removeprefix("python")
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(OLDEST_LIBC, NEWEST_LIBC + 1)]
    options = ["--only-binary=:all:", "--no-deps", "--require-hashes", f"--python-version={version}"]
    _pip("download", "-d", str(directory), *options, f"--platform=manylinux2014_{machine}", *platforms, "-r", str(lock))
    return sorted(directory.glob("*.whl"))


def own_wheel(tree: Path, directory: Path) -> Path:
    """Build the wheel of a source tree from a copy, so that nothing of an earlier build is in it."""
    with tempfile.TemporaryDirectory() as name:
        for source in _COPIED:
            here, there = tree / source, Path(name, source)
            if here.is_dir():
                shutil.copytree(here, there, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(here, there)
        _pip("wheel", "--no-deps", "-w", str(directory), name)
    [wheel] = directory.glob("dray-*.whl")
    return wheel


def install(wheels: list[Path], root: Path, python: str) -> None:
    """Unpack wheels below `root`. Programs of packages and files outside of the packages' directory are left out."""
    place = root / place_of(python)
    place.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        for data in place.glob("*.data"):
            for kind in ("purelib", "platlib"):
                if (data / kind).is_dir():
                    shutil.copytree(data / kind, place, dirs_exist_ok=True)
            shutil.rmtree(data)


def write_command(root: Path, python: str) -> None:
    command = root / "usr/bin/dray"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(_COMMAND.format(python=python))
    command.chmod(0o755)


def compile_all(system: Path, root: Path, directory: str, python: str) -> None:
    """Compile a directory of `root` by the interpreter of the image, which sees that it runs at all.

    The interpreter is started by its own loader with its own libraries. The result depends on the sources alone.
    """
    libraries = [*(system / "usr/lib").glob("*-linux-gnu*")]
    [loader] = (system / "usr/lib64").glob("ld-linux-*") or [*libraries[0].glob("ld-linux-*")]
    command = [str(loader), "--library-path", str(libraries[0]), str(system / "usr/bin" / python), "-s", "-m"]
    options = ["-q", "-f", "--invalidation-mode=unchecked-hash", "-s", str(root), "-p", "/"]
    env = {"PYTHONHOME": str(system / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    done = subprocess.run(
        [*command, "compileall", *options, str(root / directory)], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ImageError(f"the image's interpreter cannot compile {directory}: {done.stdout}{done.stderr}")


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"pip {words[0]}: {done.stderr.strip()}")
