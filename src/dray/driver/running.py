"""Runs a driver; `run` is the one call that an author makes.

On a node, the driver serves the node agent and publishes the node's own pools. Without a node, it publishes the
network-attached pools and serves nothing; one such instance is enough for a cluster. Left out: command lines.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

from dray.client import Client
from dray.driver.cdi import CdiDirectory
from dray.driver.contract import Driver, check_driver
from dray.driver.metadata import MetadataFiles
from dray.driver.plugin import DriverPlugin
from dray.driver.preparation import Preparation
from dray.driver.prepared import PreparedClaims
from dray.driver.publisher import OnError, Publisher
from dray.driver.sockets import Sockets
from dray.driver.tainting import EFFECTS, pools_of

log = logging.getLogger(__name__)

KUBELET_DIR = Path("/var/lib/kubelet")
CDI_DIR = Path("/var/run/cdi")
REFRESH_SECONDS = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Runner:
    """A running driver, as an async context manager: `async with Runner(driver, client, …)`. `run` is the short form."""

    def __init__(
        self,
        driver: Driver,
        client: Client,
        *,
        node: str = "",
        kubelet_dir: Path = KUBELET_DIR,
        cdi_dir: Path = CDI_DIR,
        instance: str = "",
        refresh: float = REFRESH_SECONDS,
        withdraw: bool = False,
        on_error: OnError | None = None,
        taint_unhealthy: str = "",
    ) -> None:
        check_driver(driver)
        if taint_unhealthy and taint_unhealthy not in EFFECTS:
            raise ValueError(f"taint_unhealthy: expected one of {', '.join(EFFECTS)}, got {taint_unhealthy!r}")
        self._taint = taint_unhealthy
        self._driver = driver
        self._refresh = refresh
        self._withdraw = withdraw
        self.publisher = Publisher(client, driver.name, node, on_error=on_error)
        self._preparation: Preparation | None = None
        self._plugin: DriverPlugin | None = None
        if node:
            data = kubelet_dir / "plugins" / driver.name
            cdi = CdiDirectory(cdi_dir, driver.name)
            metadata = MetadataFiles(data, cdi_dir, driver.name)
            self._preparation = Preparation(driver, client, PreparedClaims(data / "claims"), cdi, metadata)
            self._plugin = DriverPlugin(
                driver, self._preparation, Sockets.below(kubelet_dir, driver.name, instance), health_seconds=2 * refresh
            )
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Runner:
        self.publisher.publish(await pools_of(self._driver, self._taint))
        if self._plugin is not None and self._preparation is not None:
            self._preparation.clean_specs()
            await self._plugin.start()
            self._start(self._preparation.clean())
        self._start(self.publisher.run())
        self._start(self._look())
        return self

    async def __aexit__(self, *reason: object) -> None:
        if self._plugin is not None and self._preparation is not None:
            await self._plugin.stop()
            await self._preparation.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._withdraw:
            await self.publisher.withdraw()

    @property
    def registered(self) -> bool:
        """Whether the node agent has accepted the driver. Always True without a node.

        Returns False while the node agent has not answered or has refused the driver.
        """
        return self._plugin is None or self._plugin.registered is True

    async def forever(self) -> None:
        """Wait until cancelled, or until a part of the driver fails, and then raise its error."""
        await asyncio.gather(*self._tasks)
        await asyncio.Event().wait()

    async def _look(self) -> None:
        """Ask the driver for its devices at regular intervals and publish them. Unchanged pools cause no writes."""
        while True:
            await asyncio.sleep(self._refresh)
            try:
                self.publisher.publish(await pools_of(self._driver, self._taint))
            except Exception:
                log.exception("driver %s failed to list its devices; keeping the last list", self._driver.name)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))


async def run(
    driver: Driver,
    client: Client,
    *,
    node: str = "",
    kubelet_dir: Path = KUBELET_DIR,
    cdi_dir: Path = CDI_DIR,
    instance: str = "",
    withdraw: bool = False,
    taint_unhealthy: str = "",
) -> None:
    """Run a driver until it is cancelled or the process gets SIGTERM or SIGINT, then remove its sockets.

    `instance` is a uid that distinguishes this process from the one that it replaces in a rolling update. `withdraw`
    deletes the slices at the end, for a driver that will not return; the node agent deletes those of a driver that
    disappears. `taint_unhealthy` is the effect of the taint on devices that the driver reports as unhealthy; empty
    means no taint.
    """
    runner = Runner(
        driver,
        client,
        node=node,
        kubelet_dir=kubelet_dir,
        cdi_dir=cdi_dir,
        instance=instance,
        withdraw=withdraw,
        taint_unhealthy=taint_unhealthy,
    )
    async with _signals() as told, runner:
        parts = asyncio.ensure_future(runner.forever())
        await asyncio.wait({told, parts}, return_when=asyncio.FIRST_COMPLETED)
        parts.cancel()
        if parts.done():
            parts.result()


@asynccontextmanager
async def _signals() -> AsyncIterator[asyncio.Future[None]]:
    """Yield a future that completes with the first SIGTERM or SIGINT.

    The signals are handled until the end of the `with` block.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()
    for number in _SIGNALS:
        loop.add_signal_handler(number, lambda: None if told.done() else told.set_result(None))
    try:
        yield told
    finally:
        told.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
