"""The available runtimes by name, and checks whether this machine can run them.

Left out: a `cri` runtime, which the interface would allow.
"""

from __future__ import annotations

import os
from pathlib import Path

from dray.node.bwrap import BwrapWrapper
from dray.node.fake import FakeRuntime
from dray.node.oci import OciWrapper
from dray.node.process import ProcessWrapper
from dray.node.runtime import Runtime
from dray.node.supervised import Supervised

AUTO = "auto"
_WRAPPERS: dict[str, type[ProcessWrapper] | type[BwrapWrapper] | type[OciWrapper]] = {
    "process": ProcessWrapper,
    "bwrap": BwrapWrapper,
    "oci": OciWrapper,
}
NAMES = ("fake", *_WRAPPERS)


class RuntimeUnavailable(Exception):
    """This machine cannot run the requested runtime. The text gives the reason."""


def unavailable(name: str) -> str:
    """Return why this machine cannot run a runtime, or "" if it can."""
    return "" if name == "fake" else _WRAPPERS[name]().unavailable()


def open_runtime(name: str, root: Path) -> Runtime:
    """Return a runtime by name. Raises `RuntimeUnavailable` if this machine cannot run it.

    `auto` means bwrap where it works, otherwise process, but never process as root.
    """
    if name == AUTO:
        why = unavailable("bwrap")
        if why and os.geteuid() == 0:
            text = "as root, containers run without isolation only on request (--runtime process)"
            raise RuntimeUnavailable(f"runtime auto: {why}; {text}")
        return Supervised(root, ProcessWrapper() if why else BwrapWrapper())
    if name not in NAMES:
        raise RuntimeUnavailable(f"runtime {name!r}: expected one of {', '.join((AUTO, *NAMES))}")
    if why := unavailable(name):
        raise RuntimeUnavailable(f"runtime {name}: {why}")
    return FakeRuntime() if name == "fake" else Supervised(root, _WRAPPERS[name]())
