"""Unpacks the layers of an image into a directory, one over the other.

Archives may be hostile. Every path is walked below the directory, and links are resolved inside it (`beneath`), so
that no entry is written elsewhere; sizes, entries and digests are checked while reading. Device nodes are skipped,
because /dev comes from the runtime. Left out: extended attributes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, Any

from dray.node.beneath import open_beneath, open_directory
from dray.node.images.manifest import ImageError

MOST_BYTES = 32 << 30  # limit for all files of an image
MOST_ENTRIES = 2_000_000
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 64 << 10  # size of reads from the archive; tarfile copies the rest of a block for every file
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Unpacking:
    """An image that is being unpacked into a directory. Layers must be applied in order, starting with the lowest."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        self._base = open_directory(str(directory))
        self._bytes_left = most_bytes
        self._entries_left = most_entries
        self._most_bytes = most_bytes
        self._own_files = os.geteuid() == 0  # only root can change the owner of files

    def close(self) -> None:
        os.close(self._base)

    def layer(self, stream: io.BufferedReader, diff_id: str, what: str) -> None:
        """Apply one layer. Raises `ImageError` if its uncompressed bytes do not have the digest `diff_id`.

        Also raises ImageError if the layer cannot be unpacked. An empty `diff_id` is not checked. `what` names the
        layer in errors.
        """
        plain = _Counting(_uncompressed(stream, what), self)
        fresh: set[str] = set()  # paths written by this layer, which an opaque directory does not hide
        try:
            with tarfile.open(fileobj=plain, mode="r|", bufsize=_BLOCK_BYTES, errorlevel=1) as archive:
                for member in archive:
                    self._count(what)
                    self._apply(archive, member, fresh)
            plain.drain()
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError, ValueError, OverflowError) as error:
            raise ImageError(f"{what}: {error}") from error
        if diff_id and f"sha256:{plain.digest}" != diff_id:
            raise ImageError(f"{what}: the uncompressed digest is sha256:{plain.digest}, expected {diff_id}")

    def _count(self, what: str) -> None:
        self._entries_left -= 1
        if self._entries_left < 0:
            raise ImageError(f"{what}: too many files")

    def spend(self, count: int) -> None:
        """Subtract bytes from the image's size limit. Raises `ImageError` if the limit is exceeded.

        `count` is the number of bytes.
        """
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise ImageError(f"the image has more than {self._most_bytes} bytes")

    def _apply(self, archive: tarfile.TarFile, member: tarfile.TarInfo, fresh: set[str]) -> None:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ImageError(f"{member.name!r} leads out of the image")
        if not parts:
            return
        directory = open_beneath(self._base, "/".join(parts[:-1]), create=0o755, rooted=True)
        try:
            if parts[-1] == _OPAQUE:
                self._clear(directory, "/".join(parts[:-1]), fresh)
            elif parts[-1].startswith(_WHITEOUT):
                _remove(directory, _named(parts[-1].removeprefix(_WHITEOUT), member.name))
            else:
                self._make(archive, member, directory, _named(parts[-1], member.name))
                fresh.add("/".join(parts))
        finally:
            os.close(directory)

    def _clear(self, directory: int, path: str, fresh: set[str]) -> None:
        for name in os.listdir(f"/proc/self/fd/{directory}"):
            here = f"{path}/{name}" if path else name
            if not any(done == here or done.startswith(f"{here}/") for done in fresh):
                _remove(directory, name)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, directory: int, name: str) -> None:
        if member.isdir():
            self._directory(member, directory, name)
        elif member.issym():
            _remove(directory, name)
            os.symlink(member.linkname, name, dir_fd=directory)
            self._own(member, directory, name)
        elif member.islnk():
            self._link(member, directory, name)
        elif member.isfifo():
            _remove(directory, name)
            os.mkfifo(f"/proc/self/fd/{directory}/{name}", member.mode & 0o777)
        elif member.isreg():
            self._file(archive, member, directory, name)

    def _directory(self, member: tarfile.TarInfo, directory: int, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            if not os.path.isdir(f"/proc/self/fd/{directory}/{name}"):
                _remove(directory, name)
                os.mkdir(name, dir_fd=directory)
            elif os.path.islink(f"/proc/self/fd/{directory}/{name}"):
                return  # a link to a directory of a lower layer stays
        self._own(member, directory, name)
        # The owner may always write, because the agent must be able to remove the directory.
        os.chmod(name, member.mode & 0o7777 | 0o700, dir_fd=directory)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, directory: int, name: str) -> None:
        source = archive.extractfile(member)
        assert source is not None  # never None for a regular file
        _remove(directory, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=directory)
        with os.fdopen(file, "wb") as target:
            while chunk := source.read(_CHUNK_BYTES):
                if member.issparse():  # holes need no space in the archive, so their bytes are counted here
                    self.spend(len(chunk))
                target.write(chunk)
            if self._own_files:
                os.fchown(file, member.uid, member.gid)
            target.flush()
            os.fchmod(file, member.mode & 0o7777)
            os.utime(file, (member.mtime, member.mtime))

    def _link(self, member: tarfile.TarInfo, directory: int, name: str) -> None:
        parent, _, target = member.linkname.strip("/").rpartition("/")
        if ".." in member.linkname.split("/"):
            raise ImageError(f"{member.name!r} links to {member.linkname!r}, which leads out of the image")
        source = open_beneath(self._base, parent, rooted=True)
        try:
            found = os.stat(target, dir_fd=source, follow_symlinks=False)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == found.st_ino:
                    return
            _remove(directory, name)
            os.link(target, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(source)

    def _own(self, member: tarfile.TarInfo, directory: int, name: str) -> None:
        """Set the owner of a file as the archive says, if the agent runs as root."""
        if self._own_files:
            os.chown(name, member.uid, member.gid, dir_fd=directory, follow_symlinks=False)


class _Counting(io.RawIOBase):
    """Stream of uncompressed bytes that counts and hashes what is read."""

    def __init__(self, stream: IO[bytes], unpacking: Unpacking) -> None:
        self._stream = stream
        self._unpacking = unpacking
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(_CHUNK_BYTES if size is None or size < 0 else size)
        self._unpacking.spend(len(data))
        self._hash.update(data)
        return data

    def drain(self) -> None:
        """Read the bytes after the end of the archive, because they are part of the digest."""
        while self.read(_CHUNK_BYTES):
            pass

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _uncompressed(stream: io.BufferedReader, what: str) -> Any:
    start = stream.peek(4)[:4]
    if start[:2] == _GZIP:
        return gzip.GzipFile(fileobj=stream)
    if start == _ZSTD:
        raise ImageError(f"{what}: layers compressed with zstd are not supported; push the image with gzip")
    return stream


def _named(name: str, path: str) -> str:
    if name in ("", ".", "..") or "\0" in name:
        raise ImageError(f"{path!r} is not the path of a file")
    return name


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(name, dir_fd=directory)
