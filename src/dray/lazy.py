"""Packages that import their modules when a name is first used, because a short command needs few of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports the module which has the requested name.

    `homes` maps a module, by its name in the package or its full name, to the names in it. Raises AttributeError
    for others.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        found = getattr(import_module(module if module.startswith("dray.") else f"{package}.{module}"), name)
        vars(sys.modules[package])[name] = found  # found there the next time
        return found

    return __getattr__
