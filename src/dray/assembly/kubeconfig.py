"""The kubeconfig of a cluster: written at each start, and merged into the user's own on request.

Only the entries of the cluster are written. Other contexts and users, and another current context, are kept.
"""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dray.api.wire import Tree
from dray.files import YamlError, read_text, yaml_document

if TYPE_CHECKING:
    from dray.apiserver.security.certificates import Keys

_NAME = "dray"  # name of cluster and context in the cluster's own file
_LISTS = ("clusters", "users", "contexts")


def entries(url: str, keys: Keys | None, name: str = _NAME, user: str = "admin") -> Tree:
    """Return the cluster, user and context entries of a cluster. Without keys, no credentials are needed."""
    cluster: Tree = {"server": url}
    secrets: Tree = {}
    if keys is not None:
        cluster["certificate-authority-data"] = base64.b64encode(keys.authority).decode()
        secrets["token"] = keys.admin_token
    return {
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": secrets}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }


def write(path: Path, added: Tree, *, select: bool) -> None:
    """Add entries to a kubeconfig and keep all others.

    `select` makes the new context current; without it, that happens only if no context was current. Raises ValueError
    if the file is not a kubeconfig.
    """
    config = _read(path)
    for kind in _LISTS:
        config[kind] = _merged(config.get(kind) or [], added[kind])
    names = {entry["name"] for entry in config["contexts"]}
    if select or config.get("current-context") not in names:
        config["current-context"] = added["contexts"][0]["name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    _save(path, config)


def port(path: Path) -> int | None:
    """Return the port of the dray cluster in a kubeconfig, or None.

    None if the file cannot be read or has no dray cluster.
    """
    with suppress(ValueError, KeyError, TypeError, OSError):
        for entry in _read(path).get("clusters") or []:
            if entry["name"] == _NAME:
                return urlsplit(str(entry["cluster"]["server"])).port
    return None


def remove(path: Path, name: str) -> None:
    """Remove the entries of a cluster from the user's kubeconfig.

    Does nothing if the file or the context does not exist. `name` is that of the context.
    """
    if not path.exists():
        return
    config = _read(path)
    if not any(entry["name"] == name for entry in config.get("contexts") or []):
        return
    for kind in _LISTS:
        config[kind] = [entry for entry in config.get(kind) or [] if entry["name"] != name]
    if config.get("current-context") == name:
        config["current-context"] = ""
    _save(path, config)


def of_user() -> Path:
    """Return the file that kubectl writes to."""
    first = os.environ.get("KUBECONFIG", "").split(":")[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


def _read(path: Path) -> Tree:
    """Return the content of a kubeconfig, or a new one if the file does not exist.

    Raises ValueError if the file cannot be read or is no kubeconfig.
    """
    try:
        config = yaml_document(read_text(path)) if path.exists() else None
    except YamlError as error:
        raise ValueError(f"{path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    config = {"apiVersion": "v1", "kind": "Config"} if config is None else config
    if not isinstance(config, dict) or not all(isinstance(config.get(kind) or [], list) for kind in _LISTS):
        raise ValueError(f"{path} is no kubeconfig: expected lists of {', '.join(_LISTS)}")
    return config


def _save(path: Path, config: Tree) -> None:
    """Write a kubeconfig that only its owner can read."""
    import yaml

    from dray.apiserver.security.certificates import write_private

    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _merged(known: list[Tree], added: list[Tree]) -> list[Tree]:
    """Return the known entries, replaced or extended by the added ones."""
    new = {entry["name"]: entry for entry in added}
    return [new.pop(entry["name"], entry) for entry in known] + [*new.values()]
