"""An API server as a process, for the commands that work for one."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.api.types.core import Pod
from dray.client import Client
from tests.cli.running import Dray
from tests.waiting import SECONDS, eventually


@contextmanager
def server(directory: Path) -> Iterator[Path]:
    """A server in memory; its kubeconfig."""
    with Dray("apiserver", "--dir", directory, "--port", "0", "--store", "memory", "--insecure"):
        yield directory / "kubeconfig"


def fetched(component: Dray, path: str) -> str:
    """What a component tells at the address that it printed."""
    match = re.search(r"metrics at (http://127\.0\.0\.1:\d+)/", "\n".join(component.lines))
    assert match is not None, component.lines
    with urllib.request.urlopen(match[1] + path, timeout=SECONDS) as answer:
        return str(answer.read().decode())


async def counts(component: Dray, *lines: str) -> None:
    """Wait until a component's figures have these lines: it counts after it has done its work."""
    await eventually(lambda: not {*lines} - {*fetched(component, "/metrics").splitlines()})


async def node_of(client: Client, name: str) -> str:
    return (await client.get(Pod, name, "default")).spec.nodeName
