"""Requirements for a driver's registration with the node agent."""

from __future__ import annotations

from pathlib import Path

from dray.api import names
from dray.driverkit import kubelet
from dray.driverkit.setting import CheckFailed, Setting
from dray.rpc import HEALTH_SERVICES

PATH_BYTES_MAX = 107  # limit of a Unix domain socket's path


async def introduces_itself(setting: Setting) -> None:
    """GetInfo on a socket in plugins_registry returns type, driver name, endpoint and versions."""
    info = setting.info
    if info.type != "DRAPlugin":
        raise CheckFailed(f"type: expected DRAPlugin, got {info.type!r}")
    if len(info.name.encode()) > 63 or [*names.subdomain(info.name)]:
        raise CheckFailed(f"name: expected a DNS subdomain of at most 63 bytes, got {info.name!r}")
    if not _is_socket(info.endpoint):
        raise CheckFailed(f"endpoint: expected the absolute path of a socket, got {info.endpoint!r}")
    if not setting.versions():
        raise CheckFailed(
            f"supported_versions: expected v1.DRAPlugin or v1beta1.DRAPlugin, got {[*info.supported_versions]}"
        )


async def takes_the_answer_to_its_registration(setting: Setting) -> None:
    """The driver accepts NotifyRegistrationStatus, also more than once."""
    for _ in range(2):
        await setting.notify()


async def serves_what_it_announces(setting: Setting) -> None:
    """Every version that the driver announces answers calls, including the health stream."""
    for version in setting.versions():
        await setting.call_prepare(version=version)
        await setting.call_unprepare(version=version)
    for service in HEALTH_SERVICES:
        if service in setting.info.supported_versions:
            await kubelet.first_health(Path(setting.info.endpoint), service, setting.patience.call)


async def uses_paths_that_can_be_bound(setting: Setting) -> None:
    """The paths of the driver's sockets have at most 107 bytes."""
    for path in (setting.registration, Path(setting.info.endpoint)):
        if len(str(path).encode()) > PATH_BYTES_MAX:
            raise CheckFailed(f"{path} has {len(str(path).encode())} bytes, at most {PATH_BYTES_MAX} can be bound")


def _is_socket(path: str) -> bool:
    return Path(path).is_absolute() and Path(path).is_socket()
