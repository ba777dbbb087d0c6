"""Build the container image of dray as an OCI layout, without Docker: `make image` writes it to build/image/dray.

Three layers: packages of Debian with an interpreter, the locked wheels, and dray. They change at different times, so registries
and nodes keep what did not change. The same packages, lock file and source tree give the same bytes. The image runs as user
65532, writes nothing to its file system, and needs no network but the API server.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tools.image import debian, wheels
from tools.image.debian import ImageError
from tools.image.layout import Layer, Layout

ROOT = Path(__file__).parents[2]
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = "65532:65532"


def build(target: Path, cache: Path, wheel: Path | None = None, compression: int = 6) -> str:
    """Write the image to `target`, which is replaced. Returns the digest of its manifest."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise ImageError(f"no wheels exist for {machine}")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as name:
        layers = _Layers(Path(name), cache, epoch, compression).all(wheel)
    shutil.rmtree(target, ignore_errors=True)
    run = {
        "User": USER,
        "Entrypoint": ["/usr/bin/dray"],
        "Cmd": ["--help"],
        "WorkingDir": "/",
        "Env": ["PATH=/usr/bin", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
        "Labels": {
            "org.opencontainers.image.title": "dray",
            "org.opencontainers.image.version": project["version"],
            "org.opencontainers.image.licenses": project["license"],
        },
    }
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Layout(target).write(project["version"], layers, run, _ARCHITECTURES[machine], created)


class _Layers:
    """Makes the layers of one image. Those of packages and of locked wheels are kept for the next time."""

    def __init__(self, work: Path, cache: Path, epoch: int, compression: int) -> None:
        self._system, self._libraries, self._own = (work / name for name in ("system", "libraries", "own"))
        self._work, self._cache, self._epoch, self._compression = work, cache, epoch, compression
        self._python = debian.interpreter()
        self._place = wheels.place_of(self._python)
        self._lock = ROOT / "requirements.lock"

    def all(self, wheel: Path | None) -> list[Layer]:
        names = debian.closure([self._python, *debian.BESIDE_PYTHON])
        packages = debian.download(names, self._cache / "packages")
        debian.unpack(packages, self._system)  # always, since its interpreter compiles the other layers
        about = [path.name for path in packages]
        return [
            self._kept("system", about, self._compiled_system),
            self._kept("libraries", [*about, self._lock.read_text()], self._compiled_libraries),
            self._layer(self._compiled_own(wheel or wheels.own_wheel(ROOT, self._work))),
        ]

    def _kept(self, name: str, about: list[str], make: Callable[[], Path]) -> Layer:
        """Return the layer that was made of the same things, or make it."""
        tool = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
        key = hashlib.sha256("\0".join([*tool, *about, str(self._epoch), str(self._compression)]).encode()).hexdigest()
        file = self._cache / "layers" / f"{name}-{key}"
        layer = Layer.load(file)
        if layer is None:
            layer = self._layer(make())
            layer.save(file)
        return layer

    def _layer(self, root: Path) -> Layer:
        return Layer.of(root, self._epoch, self._compression)

    def _compiled_system(self) -> Path:
        wheels.compile_all(self._system, self._system, f"usr/lib/{self._python}", self._python)
        return self._system

    def _compiled_libraries(self) -> Path:
        locked = wheels.locked_wheels(self._lock, self._python, self._cache / "wheels")
        wheels.install(locked, self._libraries, self._python)
        wheels.compile_all(self._system, self._libraries, self._place, self._python)
        return self._libraries

    def _compiled_own(self, wheel: Path) -> Path:
        wheels.install([wheel], self._own, self._python)
        wheels.write_command(self._own, self._python)
        wheels.compile_all(self._system, self._own, self._place, self._python)
        return self._own


def main() -> None:
    parser = argparse.ArgumentParser(prog="make image", description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, default=ROOT / "build/image/dray", help="layout to write (%(default)s)")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/image-cache", help="for downloads (%(default)s)")
    parser.add_argument("--wheel", type=Path, help="of dray, such as one that `make release` made")
    args = parser.parse_args()
    try:
        digest = build(args.target, args.cache, args.wheel)
    except ImageError as error:
        sys.exit(f"make image: {error}")
    print(f"{digest} in {args.target}")


if __name__ == "__main__":
    main()
