"""The operating system of the image: an interpreter and its libraries from packages of the Debian release that builds it.

Packages are downloaded by apt-get, which checks their signatures and checksums, and unpacked without running their
scripts. Left out: programs that only scripts need, modules of Python that dray does not import, and everything for people
who read or install.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, cast

BESIDE_PYTHON = ("base-files", "ca-certificates", "libstdc++6")  # the last one for extension modules of wheels
WHOLE = re.compile(r"^(python3\.\d+(-minimal)?|lib[a-z0-9.+-]*|zlib1g|gcc-[0-9]+-base|ca-certificates|base-files)$")
"""The packages that may be part of the image."""
NOT_NEEDED = re.compile(
    r"^lib(perl|gdbm|db5|readline|ncurses|tinfo|nsl|tirpc|gssapi|k5crypto|keyutils|krb5|com-err|selinux|pcre|acl|md0|text)"
)
"""Libraries of programs and of modules (readline, curses, dbm, nis) that are not part of the image."""
_MERGED = ("bin", "sbin", "lib", "lib64")
_UNUSED = re.compile(
    r"^usr/(share/(?!doc/[^/]+/copyright$|ca-certificates/).*|sbin/.*|lib/python3\.\d+/(idlelib|lib2to3|ensurepip|pydoc_data|"
    r"turtledemo|tkinter|test)/.*|lib/[^/]+/gconv/.*|lib/(tmpfiles\.d|valgrind|systemd|mime)/.*|bin/(?!python3).*)"
)
_USERS = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class ImageError(Exception):
    """The image cannot be built here."""


def interpreter() -> str:
    """Return the name of the package of the release's Python, such as python3.11."""
    for line in _asked("apt-cache", "depends", "python3").splitlines():
        if found := re.match(r"\s+Depends: (python3\.\d+)$", line):
            return found[1]
    raise ImageError("this release has no package python3")


def closure(roots: Iterable[str]) -> list[str]:
    """Return the names of packages with those that they need, without those that the image leaves out."""
    missing = [*roots]
    needs, found = _needs(missing), set[str]()
    while missing:
        name = missing.pop()
        if name not in found:
            found.add(name)
            missing += [need for need in needs[name] if WHOLE.match(need) and not NOT_NEEDED.match(need)]
    return sorted(found)


def _needs(names: Sequence[str]) -> dict[str, list[str]]:
    """What each package needs, and what those packages need, and so on; of alternatives the first."""
    kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    shown = _asked("apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in kinds), *names)
    needs: dict[str, list[str]] = {}
    is_next = False  # whether the line before was one of several alternatives
    for line in shown.splitlines():
        if not line.startswith(" "):
            needs[line] = found = []
        elif (edge := re.match(r" ([ |])(?:Pre)?Depends: ([^<\s]+)$", line)) is not None:
            if not is_next:
                found.append(edge[2])
            is_next = edge[1] == "|"
    return needs


def download(names: Iterable[str], directory: Path) -> list[Path]:
    """Fetch the packages that a directory does not have yet. Returns all of them."""
    directory.mkdir(parents=True, exist_ok=True)
    uris = _asked("apt-get", "download", "--print-uris", *names).splitlines()
    wanted = [directory / line.split()[1] for line in uris if line.startswith("'")]
    missing = [path.name.split("_")[0] for path in wanted if not path.exists()]
    if missing:
        try:
            subprocess.run(["apt-get", "download", "-qq", *missing], cwd=directory, check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise ImageError(f"packages cannot be downloaded: {error.stderr.decode().strip()}") from error
    return sorted(wanted)


def unpack(packages: Iterable[Path], root: Path) -> None:
    """Make the file system of the packages below `root`, and describe each package where scanners look for it."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        _unpack(package, root)
    for path, text in _USERS.items():
        (root / path).write_text(text)
    for path in ("tmp", "proc", "sys", "dev", "run"):
        (root / path).mkdir(exist_ok=True)
    _bundle_certificates(root)


def _unpack(package: Path, root: Path) -> None:
    control = _asked("dpkg-deb", "--field", str(package))
    described = root / "var/lib/dpkg/status.d" / package.name.split("_")[0]
    described.parent.mkdir(parents=True, exist_ok=True)
    described.write_text(control)
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=cast("IO[bytes]", process.stdout), mode="r|") as archive,
    ):
        for member in archive:
            if (placed := _placed(member)) is not None:
                archive.extract(placed, root, set_attrs=False, filter="tar")
                if placed.isreg() and placed.mode & 0o111:
                    (root / placed.name).chmod(0o755)
    if process.returncode:
        raise ImageError(f"{package.name} cannot be unpacked")


def _placed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Where a file of a package goes: /bin and the like are below /usr. Returns None for files that are not needed."""
    path = PurePosixPath(member.name.removeprefix("./"))
    if path.parts and path.parts[0] in _MERGED:
        path = PurePosixPath("usr", *path.parts)
    if member.isdir() or not path.parts or _UNUSED.match(str(path)):
        return None
    member.name = str(path)
    if member.islnk():
        member.linkname = str(path.parent / PurePosixPath(member.linkname).name)
    return member


def _bundle_certificates(root: Path) -> None:
    """Make the file of all authorities, which a script of the package makes otherwise."""
    source, bundle = root / "usr/share/ca-certificates", root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in sorted(source.rglob("*.crt"))))
    shutil.rmtree(source, ignore_errors=True)


def _asked(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ImageError(f"{command[0]} is not installed: images are built on Debian and its descendants") from None
    except subprocess.CalledProcessError as error:
        raise ImageError(f"{' '.join(command[:3])} …: {error.stderr.strip()}") from error
    return done.stdout
