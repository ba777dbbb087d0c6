"""Options of a cluster in a YAML file: written by a user, or by `dray up` for the next start.

The keys are the options of `dray up` without leading dashes. `cli` knows which options a command line gave.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dray.assembly.options import ClusterOptions, ServerStartError
from dray.files import read_text, reason, yaml_document

FILE = "up.yaml"
INCIDENTAL = frozenset({"dir", "host", "port", "keys_from", "shutdown_delay"})
"""Options that do not describe the cluster, but how to reach or start it."""

_NOT_IN_FILES = frozenset({"dir", "gates_enable_apis"})
_MAPS = ("feature_gates", "runtime_config")
_HEADER = "# What `dray up` was started with. `dray up` without options starts the same cluster again.\n"


def read(path: Path) -> dict[str, Any]:
    """Return the options in a file, by field of ClusterOptions.

    Raises ServerStartError, which names the file, if the file cannot be read or an option is unknown or invalid.
    """
    try:
        tree = yaml_document(read_text(path))
        return _options(tree if tree is not None else {})
    except (OSError, UnicodeDecodeError) as error:
        raise ServerStartError(f"{path}: {reason(error)}") from error
    except ValueError as error:
        raise ServerStartError(f"{path}: {error}") from error


def _options(tree: object) -> dict[str, Any]:
    """Return the validated options in a YAML tree.

    Only the options in the tree are returned. Raises ValueError if the tree is no map, or an option is unknown or
    invalid.
    """
    if not isinstance(tree, dict):
        raise ValueError("expected a map of options, such as `nodes: 3`")
    found: dict[str, Any] = {}
    known = [name for name in ClusterOptions.__struct_fields__ if name not in _NOT_IN_FILES]
    for key, value in tree.items():
        name = str(key).replace("-", "_")
        if name not in known:
            names = ", ".join(sorted(one.replace("_", "-") for one in known))
            raise ValueError(f"there is no option {key}; there are {names}")
        found[name] = _joined(value) if name in _MAPS and isinstance(value, dict) else value
    options = msgspec.convert(found, ClusterOptions, dec_hook=_path)
    return {name: getattr(options, name) for name in found}


def _joined(values: Mapping[str, object]) -> str:
    return ",".join(f"{key}={str(value).lower()}" for key, value in values.items())


def _path(type_: type, value: object) -> object:
    if type_ is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected a text, got {value!r}")


def write(options: ClusterOptions) -> None:
    """Write the options into the cluster's directory for the next start."""
    import yaml

    default = ClusterOptions()
    tree = {
        name.replace("_", "-"): _plain(value)
        for name in ClusterOptions.__struct_fields__
        if name not in INCIDENTAL | _NOT_IN_FILES and (value := getattr(options, name)) != getattr(default, name)
    }
    path = options.dir / FILE
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(_HEADER + yaml.safe_dump(tree, sort_keys=False))
    new.replace(path)


def _plain(value: object) -> object:
    """Return a value for YAML. Paths are made absolute, so that they are valid from any directory."""
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value
