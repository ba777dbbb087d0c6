"""Device metadata: files in containers that describe the devices of a claim and their attributes (KEP-5304).

Each request has one file. The library writes the file beside the driver's sockets, and a CDI spec mounts it where
programs look for it. A file holds the same content in every version of the format, the newest first, so that a reader
takes the first version that it knows. Left out: which attributes to include (chosen by the driver, or as published).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dray.api.podclaims import POD_CLAIM_ANNOTATION
from dray.api.wire import Tree
from dray.driver.cdi import Edits, Mount, spec_of, write_atomically
from dray.driver.claims import AllocatedClaim, AllocatedDevice, ClaimReference
from dray.driver.pools import AnyAttributeValue, attribute

VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
IN_CONTAINERS = "/var/run/kubernetes.io/dra-device-attributes"


@dataclass(frozen=True)
class NetworkData:
    """How a network device appears in the container: interface name and addresses."""

    interface_name: str = ""
    ips: Sequence[str] = ()  # in CIDR form
    hardware_address: str = ""

    def tree(self) -> Tree:
        fields = {"interfaceName": self.interface_name, "ips": [*self.ips], "hardwareAddress": self.hardware_address}
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True)
class DeviceMetadata:
    """What a device's metadata file says. If `attributes` is None, the published attributes are used."""

    attributes: Mapping[str, AnyAttributeValue] | None = None
    network: NetworkData | None = None


@dataclass(frozen=True)
class ToldDevice:
    """One device in a metadata file, with its attributes in the API's form."""

    device: AllocatedDevice
    attributes: Tree = field(default_factory=dict)
    network: NetworkData | None = None

    @classmethod
    def of(cls, device: AllocatedDevice, metadata: DeviceMetadata, published: Tree) -> ToldDevice:
        own = metadata.attributes
        attributes = published.get("attributes", {}) if own is None else {k: attribute(v) for k, v in own.items()}
        return cls(device, attributes, metadata.network)

    def tree(self, driver: str) -> Tree:
        tree: Tree = {"driver": driver, "pool": self.device.pool, "name": self.device.name}
        if self.attributes:
            tree["attributes"] = self.attributes
        if self.network is not None:
            tree["networkData"] = self.network.tree()
        return tree


class MetadataFiles:
    """The metadata files of one driver on one node, and the CDI specs that mount them."""

    def __init__(self, plugin_dir: Path, cdi_dir: Path, driver: str) -> None:
        self._directory = plugin_dir / "dra-device-metadata"
        self._cdi_dir = cdi_dir
        self._driver = driver
        self._prefix = f"{driver}_metadata_"

    def write(self, claim: AllocatedClaim, told: Iterable[ToldDevice]) -> dict[str, str]:
        """Write the metadata files of a claim. Returns the CDI id that mounts each file, by request name."""
        requests: dict[str, list[ToldDevice]] = {}
        for one in told:
            requests.setdefault(one.device.request, []).append(one)
        return {request: self._write(claim, request, devices) for request, devices in requests.items()}

    def remove(self, claim: ClaimReference) -> None:
        for path in self._cdi_dir.glob(f"{self._prefix}{claim.uid}_*.json"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._of(claim), ignore_errors=True)

    def _write(self, claim: AllocatedClaim, request: str, devices: Sequence[ToldDevice]) -> str:
        directory = request.partition("/")[0]  # containers name a request without its alternative
        path = self._of(claim.reference) / directory / "metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, b"".join(_documents(claim, request, [one.tree(self._driver) for one in devices])))
        kind, name = f"{self._driver}/metadata", f"{claim.uid}_{directory}"
        mount = Mount(str(path), self._container_path(claim, directory), ("ro", "bind"))
        self._cdi_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(self._cdi_dir / f"{self._prefix}{name}.json", spec_of(kind, {name: Edits(mounts=[mount])}))
        return f"{kind}={name}"

    def _container_path(self, claim: AllocatedClaim, request: str) -> str:
        entry = claim.object.metadata.annotations.get(POD_CLAIM_ANNOTATION)
        where = f"resourceclaimtemplates/{entry}" if entry else f"resourceclaims/{claim.reference.name}"
        return f"{IN_CONTAINERS}/{where}/{request}/{self._driver}-metadata.json"

    def _of(self, claim: ClaimReference) -> Path:
        return self._directory / f"{claim.namespace}_{claim.name}"


def _documents(claim: AllocatedClaim, request: str, devices: list[Tree]) -> Iterator[bytes]:
    meta = claim.object.metadata
    body: Tree = {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "generation": meta.generation,
        },
        "requests": [{"name": request, "devices": devices}],
    }
    if entry := meta.annotations.get(POD_CLAIM_ANNOTATION):
        body["podClaimName"] = entry
    for version in VERSIONS:
        yield msgspec.json.encode({"apiVersion": version, "kind": "DeviceMetadata", **body}) + b"\n"
