"""What a server says when it cannot start as it was left, and that it ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from dray.apiserver.security.certificates import Keys
from tests.cli.running import DRAY, Dray, outcome
from tests.waiting import wait_until

START = ("apiserver", "--port", "0", "--store", "memory", "--dir")


@pytest.mark.parametrize("spoil", ["another key", "no key", "a directory"])
def test_a_key_that_cannot_be_used_is_named_at_once(tmp_path: Path, spoil: str) -> None:
    keys = Keys.open(tmp_path / "d")
    if spoil == "another key":
        keys.key_file.write_bytes(Keys.open(tmp_path / "other").key_file.read_bytes())
    elif spoil == "no key":
        keys.key_file.write_text("nothing of the kind")
    else:
        keys.key_file.unlink()
        keys.key_file.mkdir()
    code, said = outcome(*START, tmp_path / "d")
    assert code == 1
    assert "server.crt and server.key cannot be used" in said
    assert "delete both" in said
    assert "Traceback" not in said


def test_a_new_pair_is_made_when_both_are_deleted(tmp_path: Path) -> None:
    keys = Keys.open(tmp_path / "d")
    keys.key_file.unlink()
    keys.certificate_file.unlink()
    with Dray(*START, tmp_path / "d") as dray:
        assert dray.stop() == 0


def test_a_start_that_waits_for_its_store_ends_when_told_to(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        port = silent.getsockname()[1]
        arguments = ("apiserver", "--port", "0", "--dir", str(tmp_path / "d"), "--store", f"etcd://127.0.0.1:{port}")
        process = subprocess.Popen([*DRAY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            silent.accept()[0].close()  # it is past its options, its keys and its signals
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) in (0, 1)
        finally:
            process.kill()
            process.communicate()


def test_a_directory_that_others_could_write_in_becomes_private(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(0o777)
    with Dray(*START, directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_keys_that_somebody_else_put_there_are_not_used(tmp_path: Path) -> None:
    keys = Keys.open(tmp_path / "d")
    os.chown(keys.authority_file, 12345, 12345)
    code, said = outcome(*START, tmp_path / "d")
    assert (code, "ca.crt in it belongs to another user" in said) == (1, True)


def test_a_directory_that_all_share_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(0o1777)
    code, said = outcome(*START, directory)
    assert (code, "it is shared by all users" in said) == (1, True)
    assert wait_until(lambda: not (directory / "ca.key").exists())
