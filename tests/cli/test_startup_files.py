"""What a server says about files of its directory that it cannot use, and about a disk that takes nothing more."""

from __future__ import annotations

import json
import os
import resource
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from dray.apiserver.security.certificates import Keys
from tests.cli.running import DRAY, Dray, outcome
from tests.waiting import SECONDS, wait_until

KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
REMADE = "restore it, or delete it and a new one is made"


def changed_scalar(pem: str) -> str:
    """A key that still looks like one: another character in the middle of its number."""
    at = pem.index("\n") + 60
    return pem[:at] + ("A" if pem[at] != "A" else "B") + pem[at + 1 :]


@pytest.mark.parametrize("command", ["up", "apiserver"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("service-accounts.key", ""),
        ("service-accounts.key", KEY),
        ("service-accounts.key", None),
        ("ca.key", KEY),
        ("ca.crt", KEY),
        ("admin.token", ""),
        ("admin.token", " \n"),
        ("admin.token", "two\nlines"),
        ("admin.token", "ä"),
    ],
)
def test_a_key_that_cannot_be_used_stops_the_start(
    tmp_path: Path, command: str, name: str, content: str | None
) -> None:
    keys = Keys.open(tmp_path)
    file = keys.directory / name
    file.write_text(changed_scalar(file.read_text()) if content is None else content)
    code, text = outcome(command, "--dir", tmp_path, "--port", "0")
    assert code == 1
    assert f"{file} holds no" in text
    assert REMADE in text
    assert "Traceback" not in text


def test_an_authority_with_the_key_of_another_is_named(tmp_path: Path) -> None:
    file = Keys.open(tmp_path / "one").directory / "ca.key"
    file.write_bytes((Keys.open(tmp_path / "other").directory / "ca.key").read_bytes())
    code, text = outcome("apiserver", "--dir", tmp_path / "one", "--port", "0")
    assert code == 1
    assert f"{tmp_path / 'one' / 'ca.crt'} and ca.key do not belong together; restore them, or delete both" in text


@pytest.mark.parametrize("content", ["garbage", None])
def test_a_key_of_the_dashboard_that_cannot_be_used_stops_the_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "dashboard.key"
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    code, text = outcome("up", "--dir", tmp_path, "--port", "0")
    assert code == 1
    assert f"dray up: {file} cannot be used: " in text
    assert "Traceback" not in text


def test_a_directory_in_the_place_of_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.crt").mkdir()
    code, text = outcome("apiserver", "--dir", tmp_path, "--port", "0")
    assert (code, text) == (
        1,
        f"dray apiserver: {tmp_path / 'server.crt'} cannot be used: Is a directory; restore it\n",
    )


@pytest.mark.parametrize("name", ["service-accounts.key", "admin.token"])
def test_the_repair_that_is_told_works(tmp_path: Path, name: str) -> None:
    file = Keys.open(tmp_path).directory / name
    file.write_text("")
    assert outcome("apiserver", "--dir", tmp_path, "--port", "0")[0] == 1
    file.unlink()
    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory"):
        assert posted(tmp_path, "/api/v1/namespaces/default/serviceaccounts", "a") == 201
        assert posted(tmp_path, "/api/v1/namespaces/default/serviceaccounts/a/token") == 201


def test_a_witness_that_is_a_directory_is_named(tmp_path: Path) -> None:
    with Dray("apiserver", "--dir", tmp_path, "--port", "0") as dray:
        dray.stop()
    witness = tmp_path / "state.db.head"
    witness.unlink()
    witness.mkdir()
    code, text = outcome("apiserver", "--dir", tmp_path, "--port", "0")
    assert (code, text) == (1, f"dray apiserver: {witness} is no regular file; remove it, and it is made again\n")
    witness.rmdir()
    with Dray("apiserver", "--dir", tmp_path, "--port", "0") as dray:
        assert dray.stop() == 0


@pytest.mark.parametrize("command", ["up", "apiserver"])
@pytest.mark.parametrize("name", ["server.key", "ca.crt", "ca.key", "service-accounts.key", "admin.token"])
def test_a_fifo_in_the_place_of_a_key_is_named(tmp_path: Path, command: str, name: str) -> None:
    Keys.open(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    code, text = outcome(command, "--dir", tmp_path, "--port", "0")
    assert code == 1
    assert str(tmp_path) in text
    assert name in text
    assert "expected a regular file, found a FIFO" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("option", ["--token-auth-file", "--scheduler-config", "--autoscale"])
def test_a_fifo_that_an_option_names_is_told(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    code, text = outcome("up", "--dir", tmp_path / "d", "--port", "0", option, tmp_path / "fifo")
    assert code != 0
    assert str(tmp_path / "fifo") in text
    assert "expected a regular file, found a FIFO" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("command", ["scheduler", "controller-manager", "node"])
def test_a_kubeconfig_that_is_a_fifo_is_told(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    more = ["--name", "n", "--root", str(tmp_path / "d")] if command == "node" else []
    code, text = outcome(command, "--kubeconfig", tmp_path / "fifo", *more)
    assert code != 0
    assert "expected a regular file, found a FIFO" in text
    assert "Traceback" not in text


def test_a_manifest_may_come_from_a_pipe_but_not_be_one_in_a_directory(tmp_path: Path) -> None:
    manifest = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
    for given in ("-", "/dev/stdin"):
        done = subprocess.run([*DRAY, "lint", "-f", given], input=manifest, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    os.mkfifo(tmp_path / "pipe.yaml")
    code, text = outcome("lint", "-f", tmp_path)
    assert code != 0
    assert "expected a regular file, found a FIFO" in text


def test_a_kubeconfig_that_is_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").mkdir()
    code, text = outcome("apiserver", "--dir", tmp_path, "--port", "0")
    assert code == 1
    assert f"{tmp_path / 'kubeconfig'} cannot be read" in text
    assert "Traceback" not in text


def test_a_server_is_not_ready_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    """The process that writes the database may make files no longer, as on a disk without room."""
    path = "/api/v1/namespaces/default/configmaps"
    with Dray("apiserver", "--dir", tmp_path, "--port", "0") as dray:
        writer = writer_of(dray.process.pid)
        assert health(tmp_path, "/readyz") == (200, "ok")
        limits = resource.prlimit(writer, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        eventually_code(tmp_path, 500)
        assert "[-]store failed: cannot write to the database" in health(tmp_path, "/readyz")[1]
        assert health(tmp_path, "/livez") == (200, "ok")
        assert posted(tmp_path, path, "a") >= 500
        resource.prlimit(writer, resource.RLIMIT_FSIZE, limits)
        eventually_code(tmp_path, 200)
        assert posted(tmp_path, path, "b") == 201
        assert dray.stop() == 0


def writer_of(pid: int) -> int:
    """Process that writes the database of a server; a thread of the server started it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"scribe.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("nobody writes the database")


def opened(directory: Path, path: str, body: dict[str, object] | None = None) -> tuple[int, str]:
    config = yaml.safe_load((directory / "kubeconfig").read_text())
    request = urllib.request.Request(config["clusters"][0]["cluster"]["server"] + path)
    request.add_header("Authorization", f"Bearer {config['users'][0]['user']['token']}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def health(directory: Path, path: str) -> tuple[int, str]:
    return opened(directory, path)


def posted(directory: Path, path: str, name: str = "") -> int:
    return opened(directory, path, {"metadata": {"name": name}} if name else {})[0]


def eventually_code(directory: Path, code: int) -> None:
    wait_until(lambda: health(directory, "/readyz")[0] == code)
