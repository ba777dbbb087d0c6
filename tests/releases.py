"""dray's API server, restricted to what a release of Kubernetes serves by default.

The table says which gates are on, and which versions of resource.k8s.io and scheduling.k8s.io kinds are served. Kinds that
only a gate or a runtime configuration turns on are not there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.api.resources import Resource
from dray.api.users import ADMIN
from dray.apiserver import assembly
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.served import served_versions
from dray.apiserver.wire import documents
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, InProcess
from dray.client.config import Config
from dray.client.credentials import Fixed
from dray.client.http import Http

_DRA = frozenset({"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"})


@dataclass(frozen=True)
class Release:
    """What one release has by default."""

    minor: int
    on: frozenset[str]  # gates of devices and workloads
    kinds: frozenset[str] = _DRA  # of resource.k8s.io
    versions: tuple[str, ...] = ("v1",)  # of them

    @property
    def missing(self) -> list[str]:
        """The kinds that controllers ask for and the release does not have by default."""
        scheduling = [f"{plural}.scheduling.k8s.io" for plural in ("compositepodgroups", "podgroups", "workloads")]
        devices = [name for name in ("devicetaintrules", "resourcepoolstatusrequests") if name not in self.kinds]
        return [*scheduling, *(f"{plural}.resource.k8s.io" for plural in devices)]

    @property
    def gates(self) -> FeatureGates:
        off = dict.fromkeys(FeatureGates.of_release(99).all_served - self.on, False)
        return FeatureGates({**off, **dict.fromkeys(self.on, True)})

    def serves(self, resource: Resource) -> bool:
        if resource.group == "scheduling.k8s.io":
            return resource.plural == "priorityclasses"
        return resource.group != "resource.k8s.io" or resource.plural in self.kinds


_STABLE = frozenset({"DynamicResourceAllocation", "DRAPrioritizedList", "DRAAdminAccess", "DRASchedulerFilterTimeout"})
_BETA = _STABLE | {
    "DRADeviceTaints",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAPartitionableDevices",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRAExtendedResource",
}
RELEASES = {
    release.minor: release
    for release in (
        Release(34, _STABLE),
        Release(35, _STABLE),
        Release(36, _BETA),
        Release(37, _BETA | {"DRAFractionalCapacityRange"}, _DRA | {"devicetaintrules"}),
    )
}


@dataclass
class ReleaseServer:
    """A running server, reached over HTTP as any user."""

    address: str
    admin: Client

    def client(self, user: str) -> Http:
        return Http(Config(self.address, credentials=Fixed.token(user)))


@asynccontextmanager
async def serving(release: Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[ReleaseServer]:
    """The server; the token of each user is its name."""
    version = documents._version() | {"minor": str(release.minor), "gitVersion": f"v1.{release.minor}.0"}
    monkeypatch.setattr(documents, "_version", lambda: version)

    def served(*arguments: Any, **options: Any) -> dict[Resource, tuple[str, ...]]:
        found = served_versions(*arguments, **options)
        return {resource: versions for resource, versions in found.items() if release.serves(resource)}

    monkeypatch.setattr(assembly, "served_versions", served)
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("".join(f"{user},{user},{user}\n" for user in USERS))
    running = await Running.open(
        ServerSettings(gates=release.gates, disabled_plugins=("ServiceAccount",), token_file=tokens)
    )
    http = HttpServer(running.http, sock := listen("127.0.0.1", 0), None)
    await http.start()
    try:
        yield ReleaseServer(f"http://127.0.0.1:{sock.getsockname()[1]}", InProcess(running.api, ADMIN))
    finally:
        await http.stop()
        await running.close()


USERS = ("system:kube-scheduler", "system:kube-controller-manager", "nodes", "shadow", "reader")
