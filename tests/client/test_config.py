"""Configuration: kubeconfigs of every plain kind, plugins, pods."""

import base64
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.errors import Unauthorized
from dray.client import ManualClock
from dray.client.config import Config, ConfigError, from_kubeconfig, in_cluster, load
from dray.client.credentials import TokenFile


def kubeconfig(user: dict[str, Any], cluster: dict[str, Any] | None = None, **context: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }


def written(path: Path, tree: Any) -> str:
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **context: str) -> Config:
    return from_kubeconfig(written(tmp_path / "config", kubeconfig(user, cluster, **context)))


async def test_a_token_and_inline_certificates_are_taken(tmp_path: Path) -> None:
    cluster = {"certificate-authority-data": encoded(b"CA"), "tls-server-name": "api", "proxy-url": "http://p:1"}
    user = {"token": "T", "client-certificate-data": encoded(b"CERT"), "client-key-data": encoded(b"KEY")}
    config = read(tmp_path, user, cluster, namespace="team")
    assert (config.server, config.namespace, config.server_name) == ("https://host:6443", "team", "api")
    assert (config.ca, config.certificate, config.key, config.proxy) == (b"CA", b"CERT", b"KEY", "http://p:1")
    assert await config.credentials.header() == "Bearer T"
    assert not await config.credentials.renew()


async def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / name).write_text(name.upper())
    user = {"client-certificate": "cert", "client-key": "key", "tokenFile": "token"}
    config = read(tmp_path, user, {"certificate-authority": "ca"})
    assert (config.ca, config.certificate, config.key) == (b"CA", b"CERT", b"KEY")
    assert await config.credentials.header() == "Bearer TOKEN"


async def test_a_password_makes_basic_authentication(tmp_path: Path) -> None:
    config = read(tmp_path, {"username": "me", "password": "secret"})
    assert await config.credentials.header() == "Basic " + encoded(b"me:secret")


async def test_no_user_means_no_header(tmp_path: Path) -> None:
    tree = kubeconfig({}, {"insecure-skip-tls-verify": True})
    del tree["users"], tree["contexts"][0]["context"]["user"]
    config = from_kubeconfig(written(tmp_path / "config", tree))
    assert config.insecure
    assert await config.credentials.header() == ""


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {"as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"x.io/k": ["v", "w"]}}
    assert read(tmp_path, user).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-x.io%2Fk", "v"),
        ("Impersonate-Extra-x.io%2Fk", "w"),
    )


async def test_several_files_count_as_one_and_the_first_wins(tmp_path: Path) -> None:
    first = written(tmp_path / "first", {"users": [{"name": "u", "user": {"token": "first"}}]})
    second = written(tmp_path / "second", kubeconfig({"token": "second"}))
    config = from_kubeconfig(f"{first}:{tmp_path / 'absent'}:{second}")
    assert await config.credentials.header() == "Bearer first"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "other"}, "there is no context 'other'"),
        ({"clusters": []}, "there is no cluster 'c'"),
        ({"users": None}, "there is no user 'u'"),
        ({"users": {"u": {}}}, "users must be a list"),
        ({"clusters": [{"name": "c", "cluster": {"server": "host"}}]}, "must be an http or https address, not 'host'"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "http://h", "certificate-authority-data": "!"}}]},
            "certificate-authority-data is not base64",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "http://h", "certificate-authority": "/absent"}}]},
            "cannot read /absent: No such file",
        ),
    ],
)
def test_a_broken_kubeconfig_says_what_is_wrong(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "config", kubeconfig({}) | change)
    with pytest.raises(ConfigError, match=message):
        from_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "config: not valid YAML: line 2, column 1: while parsing"), ("[]", "expected a mapping")],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=message):
        from_kubeconfig(str(tmp_path / "config"))


def _plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    script = tmp_path / "plugin"
    script.write_text(f"#!{sys.executable}\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "args": ["t"]}}


async def test_an_exec_plugin_is_asked_at_first_use_and_when_refused(tmp_path: Path) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}
    count = tmp_path / "count"
    user = _plugin(
        tmp_path,
        f"import pathlib, sys\np = pathlib.Path({str(count)!r})\nn = len(p.read_text()) if p.exists() else 0\n"
        f"p.write_text('x' * (n + 1))\nprint({json.dumps(answer)!r} % (sys.argv[1] + str(n)))",
    )
    config = read(tmp_path, user)
    assert not count.exists()
    assert await config.credentials.header() == "Bearer t0"
    assert await config.credentials.header() == "Bearer t0"
    assert await config.credentials.renew()
    assert await config.credentials.header() == "Bearer t1"


async def test_an_exec_plugin_that_fails_is_an_authentication_error(tmp_path: Path) -> None:
    config = read(tmp_path, _plugin(tmp_path, "raise SystemExit('no luck')"))
    with pytest.raises(Unauthorized, match="credential plugin gave no token"):
        await config.credentials.header()


async def test_a_pod_finds_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("ca.crt", "CA"), ("token", "T\n"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    config = in_cluster(tmp_path)
    assert (config.server, config.ca, config.namespace) == ("https://[fd00::1]:443", b"CA", "team")
    assert await config.credentials.header() == "Bearer T"


def test_without_any_configuration_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"set \$KUBECONFIG"):
        load()
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config", kubeconfig({}))
    assert load().server == "https://host:6443"


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock)
    assert await credentials.header() == "Bearer one"
    path.write_text("two")
    await clock.advance(59)
    assert await credentials.header() == "Bearer one"
    await clock.advance(2)
    assert await credentials.header() == "Bearer two"
    path.write_text("three")
    assert await credentials.renew()
    assert await credentials.header() == "Bearer three"
    path.unlink()
    with pytest.raises(Unauthorized, match="cannot read the token file"):
        await credentials.renew()
