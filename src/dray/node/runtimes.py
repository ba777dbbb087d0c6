"""The runtimes by name, and which of them this machine can run.

Left out: `cri`, for which the interface is meant to be fit.
"""

from __future__ import annotations

from pathlib import Path

from dray.node.bwrap import BwrapWrapper
from dray.node.fake import FakeRuntime
from dray.node.oci import OciWrapper
from dray.node.process import ProcessWrapper
from dray.node.runtime import Runtime
from dray.node.supervised import Supervised, Wrapper

AUTO = "auto"
_WRAPPERS: dict[str, type[ProcessWrapper] | type[BwrapWrapper] | type[OciWrapper]] = {
    "process": ProcessWrapper,
    "bwrap": BwrapWrapper,
    "oci": OciWrapper,
}
NAMES = ("fake", *_WRAPPERS)


class RuntimeUnavailable(Exception):
    """This machine cannot run the runtime that was asked for; the text says why."""


def unavailable(name: str) -> str:
    """Why this machine cannot run a runtime; empty when it can."""
    return "" if name == "fake" else _WRAPPERS[name]().unavailable()


def open_runtime(name: str, root: Path) -> Runtime:
    """A runtime by name; `auto` is bwrap where it works, else process."""
    if name == "fake":
        return FakeRuntime()
    if name == AUTO:
        wrapper: Wrapper = BwrapWrapper()
        return Supervised(root, wrapper if not wrapper.unavailable() else ProcessWrapper())
    if name not in _WRAPPERS:
        raise RuntimeUnavailable(f"runtime {name!r}: expected one of {', '.join((AUTO, *NAMES))}")
    wrapper = _WRAPPERS[name]()
    if why := wrapper.unavailable():
        raise RuntimeUnavailable(f"runtime {name}: {why}")
    return Supervised(root, wrapper)
