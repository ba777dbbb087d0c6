"""Packages whose names are imported when they are first asked for, since a short command needs few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: imports the module, by its name below the package or in full, that has a name."""
    modules = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        return getattr(import_module(module if module.startswith("dray.") else f"{package}.{module}"), name)

    return __getattr__
