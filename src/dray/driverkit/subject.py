"""The driver under test: a command that the kit starts, stops and kills, or a driver that is already running."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dray.driverkit.setting import Places

_END_SECONDS = 10.0


class DriverUnderTest(Protocol):
    """Interface of a driver that can be tested."""

    @property
    def title(self) -> str:
        """Name of the driver in the report."""
        ...

    @property
    def restartable(self) -> bool: ...

    @property
    def changeable(self) -> bool:
        """Whether `change` makes the driver publish other devices."""
        ...

    async def start(self, places: Places) -> None: ...

    async def stop(self, *, kill: bool = False) -> int | None:
        """Stop the driver. Returns its exit status, or None if the kit did not start it.

        With `kill` the driver gets SIGKILL instead of SIGTERM.
        """
        ...

    async def ended(self) -> int:
        """Wait until the driver ends by itself. Returns its exit status, negative for a signal.

        Raises NotImplementedError if the kit did not start the driver.
        """
        ...

    @property
    def alive(self) -> bool:
        """Whether the driver still runs, as far as is known."""
        ...

    async def change(self) -> None: ...

    def output(self) -> str:
        """Return the last lines of the driver's output."""
        ...


class Command:
    """A driver that the kit starts as a command.

    `{kubeconfig}`, `{node}`, `{kubelet-dir}` and `{cdi-dir}` in the arguments are replaced. The same values are in
    the environment as KUBECONFIG, NODE_NAME, KUBELET_DIR and CDI_DIR, and under the names that drivers based on the
    Kubernetes example use.
    """

    restartable = True

    def __init__(
        self, arguments: Sequence[str], change: Callable[[], None] | str | None = None, title: str = ""
    ) -> None:
        self.title = title or " ".join(arguments)
        self._arguments = [*arguments]
        self._change = change
        self._process: asyncio.subprocess.Process | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        self._environment: Mapping[str, str] = {}

    @property
    def changeable(self) -> bool:
        return self._change is not None

    async def start(self, places: Places) -> None:
        self._environment = {**os.environ, **_environment(places)}
        arguments = [_filled(argument, places) for argument in self._arguments]
        # The driver gets a session of its own, so that its child processes end with it.
        self._process = await asyncio.create_subprocess_exec(
            *arguments, stdout=self._log, stderr=self._log, env=self._environment, start_new_session=True
        )

    async def stop(self, *, kill: bool = False) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.returncode is None:
            _signal(process, signal.SIGKILL if kill else signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), _END_SECONDS)
            except TimeoutError:
                _signal(process, signal.SIGKILL)
                await process.wait()
        return process.returncode

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def change(self) -> None:
        if callable(self._change):
            self._change()
        elif self._change:
            process = await asyncio.create_subprocess_shell(self._change, env=dict(self._environment))
            await process.wait()

    def output(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-10:])


class RegisteredDriver:
    """A driver that is already running, known by its registration socket."""

    restartable = False
    changeable = False
    alive = True

    def __init__(self, socket: Path) -> None:
        self.title = str(socket)

    async def start(self, places: Places) -> None:
        """Do nothing, because the driver already runs."""

    async def stop(self, *, kill: bool = False) -> int | None:
        return None

    async def ended(self) -> int:
        raise NotImplementedError("a driver that the kit did not start")

    async def change(self) -> None:
        raise NotImplementedError("a driver that the kit did not start")

    def output(self) -> str:
        return ""


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _filled(argument: str, places: Places) -> str:
    for name, value in _placeholders(places).items():
        argument = argument.replace(f"{{{name}}}", value)
    return argument


def _placeholders(places: Places) -> dict[str, str]:
    return {
        "kubeconfig": str(places.kubeconfig),
        "node": places.node,
        "kubelet-dir": str(places.kubelet_dir),
        "cdi-dir": str(places.cdi_dir),
    }


def _environment(places: Places) -> dict[str, str]:
    return {
        "KUBECONFIG": str(places.kubeconfig),
        "NODE_NAME": places.node,
        "KUBELET_DIR": str(places.kubelet_dir),
        "CDI_DIR": str(places.cdi_dir),
        "CDI_ROOT": str(places.cdi_dir),
        "KUBELET_REGISTRAR_DIRECTORY_PATH": str(places.registry),
        "KUBELET_PLUGINS_DIRECTORY_PATH": str(places.kubelet_dir / "plugins"),
    }
