"""Configuration of a client: kubeconfig files and the in-cluster configuration of pods.

Plain kubeconfigs (tokens, certificates, and files of these) are read here, so that commands start quickly.
Credential plugins are run by the `kubernetes` package. Writing kubeconfigs is not supported.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dray.api.wire import Tree
from dray.client.credentials import Credentials, Fixed, TokenFile, TokenPlugin
from dray.files import YamlError, read_regular, reason, yaml_document

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_KUBECONFIG = "~/.kube/config"
_PLUGIN_KEYS = ("exec", "auth-provider")


class ConfigError(Exception):
    """The configuration cannot be used; the message says which part and why."""


@dataclass(frozen=True)
class Config:
    """How to connect to a server, and the credentials of a user."""

    server: str
    ca: bytes = b""  # PEM; empty: the CAs of the system
    certificate: bytes = b""  # PEM, with `key`
    key: bytes = b""
    insecure: bool = False
    server_name: str = ""  # expected name in the certificate, if it differs from the host
    proxy: str = ""
    namespace: str = "default"
    credentials: Credentials = field(default_factory=Fixed)
    headers: tuple[tuple[str, str], ...] = ()  # additional headers of every request, for impersonation
    user_agent: str = "dray"
    page_size: int = 500  # page size of lists, as in client-go
    qps: float = 0.0  # maximum requests per second; 0 for no limit
    burst: int = 10  # maximum burst of requests under that limit


def load(kubeconfig: str = "", context: str = "") -> Config:
    """Return the configuration of the given kubeconfig, $KUBECONFIG, ~/.kube/config or the pod, the first that there
    is.

    `context` is the name of a context, empty for the current one. Raises ConfigError if there is none or it cannot be
    used.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if named or Path(_DEFAULT_KUBECONFIG).expanduser().exists():
        return from_kubeconfig(named or _DEFAULT_KUBECONFIG, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster()
    raise ConfigError(f"no kubeconfig: give one, set $KUBECONFIG, or create {_DEFAULT_KUBECONFIG}")


def in_cluster(directory: Path = _IN_CLUSTER) -> Config:
    """Return the configuration that Kubernetes provides to every pod. Raises ConfigError outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    namespace = directory / "namespace"
    return Config(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=_read(directory / "ca.crt"),
        credentials=TokenFile(directory / "token"),
        namespace=_read(namespace).decode().strip() if namespace.exists() else "default",
    )


def from_kubeconfig(path: str, context: str = "") -> Config:
    """Return the configuration of a kubeconfig's context (empty: the current one).

    Several files, separated by colons, are merged; the first definition of a name applies, and missing files are
    skipped. Raises ConfigError if no file exists, or if an entry is missing or invalid.
    """
    paths = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    present = [p for p in paths if p.exists()]
    if not present:
        raise ConfigError(f"kubeconfig {path}: no such file") from FileNotFoundError(path)
    files = [_Kubeconfig(p) for p in present]
    current = context or next((f.current_context for f in files if f.current_context), "")
    if not current:
        raise ConfigError(f"kubeconfig {path}: no current-context, and none was asked for")
    chosen, _ = _find(files, "context", current)
    cluster, cluster_dir = _find(files, "cluster", chosen.get("cluster", ""))
    user, user_dir = _find(files, "user", chosen["user"]) if chosen.get("user") else ({}, cluster_dir)
    config = _ContextReader(cluster, user, user_dir)
    credentials = _plugin(present, current) if any(k in user for k in _PLUGIN_KEYS) else config.credentials()
    return Config(
        server=config.server(),
        ca=config.data(cluster, "certificate-authority", cluster_dir),
        certificate=config.data(user, "client-certificate", user_dir),
        key=config.data(user, "client-key", user_dir),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
        namespace=chosen.get("namespace") or "default",
        credentials=credentials,
        headers=_impersonation(user),
    )


class _Kubeconfig:
    """One kubeconfig file. Its structure is checked so that errors name the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            tree = yaml_document(read_regular(path))
        except (OSError, YamlError) as error:
            raise ConfigError(f"kubeconfig {path}: {reason(error)}") from error
        if not isinstance(tree, dict):
            raise ConfigError(f"kubeconfig {path}: expected a mapping at the top")
        self.tree: Tree = tree
        self.current_context = str(tree.get("current-context") or "")

    def entry(self, kind: str, name: str) -> Tree | None:
        entries = self.tree.get(f"{kind}s") or []
        if not isinstance(entries, list):
            raise ConfigError(f"kubeconfig {self.path}: {kind}s must be a list")
        for item in entries:
            if isinstance(item, dict) and item.get("name") == name:
                value = item.get(kind) or {}
                if not isinstance(value, dict):
                    raise ConfigError(f"kubeconfig {self.path}: {kind} {name!r} must be a mapping")
                return value
        return None


def _find(files: list[_Kubeconfig], kind: str, name: str) -> tuple[Tree, Path]:
    """Return an entry, and the directory that its relative paths are based on.

    `kind` is "context", "cluster" or "user". Raises ConfigError if no file has the entry.
    """
    for file in files:
        value = file.entry(kind, name)
        if value is not None:
            return value, file.path.parent
    raise ConfigError(f"kubeconfig {':'.join(str(f.path) for f in files)}: there is no {kind} {name!r}")


class _ContextReader:
    """Reads the cluster and user entries of the chosen context."""

    def __init__(self, cluster: Tree, user: Tree, user_dir: Path) -> None:
        self._cluster, self._user, self._user_dir = cluster, user, user_dir

    def server(self) -> str:
        server = self._cluster.get("server")
        if not isinstance(server, str) or not server.startswith(("http://", "https://")):
            raise ConfigError(f"kubeconfig: cluster server must be an http or https address, not {server!r}")
        return server.rstrip("/")

    def data(self, entry: Tree, key: str, directory: Path) -> bytes:
        """Return inline data, or the content of the file given instead; b"" if neither is set.

        Inline data takes precedence, as in kubectl. Raises ConfigError if the data is not base64 or the file cannot
        be read.
        """
        inline = entry.get(f"{key}-data")
        if inline:
            try:
                return base64.b64decode(inline, validate=True)
            except (binascii.Error, ValueError, TypeError) as error:
                raise ConfigError(f"kubeconfig: {key}-data is not base64: {error}") from error
        return _read(directory / entry[key]) if entry.get(key) else b""

    def credentials(self) -> Credentials:
        user = self._user
        if user.get("tokenFile"):
            return TokenFile(self._user_dir / user["tokenFile"])
        if user.get("token"):
            return Fixed.token(str(user["token"]))
        if user.get("username"):
            return Fixed.basic(str(user["username"]), str(user.get("password", "")))
        return Fixed()


def _plugin(paths: list[Path], context: str) -> Credentials:
    def make_loader() -> Any:
        kube_config: Any = importlib.import_module("kubernetes.aio.config.kube_config")
        merged = kube_config.KubeConfigMerger(os.pathsep.join(str(p) for p in paths))
        return kube_config.KubeConfigLoader(merged.config, active_context=context, config_base_path=None)

    return TokenPlugin(make_loader)


def _impersonation(user: Tree) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return tuple((name, str(value)) for name, value in headers if value)


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
