"""Volumes for claims: bound, made as directories, given back; what is in use stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dray.api.types.core import Namespace, PersistentVolume, PersistentVolumeClaim, Pod
from dray.api.types.storage import StorageClass
from dray.client import Client
from dray.controllers import ControllerContext, Runnable
from dray.controllers.volumes import VolumeController
from tests.controllers.conftest import Start, gone, quiet
from tests.controllers.workloads.conftest import becomes

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


async def create_volume_claim(client: Client, **spec: object) -> None:
    await client.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": {**SPEC, **spec}}, namespace="ns")


async def phase(client: Client) -> str:
    return (await client.get(PersistentVolumeClaim, "c", "ns")).status.phase


async def volumes(client: Client) -> list[tuple[str, str]]:
    return [(v.spec.capacity["storage"], v.status.phase) for v in (await client.list(PersistentVolume)).items]


def controller(root: Path) -> Callable[[ControllerContext], Runnable]:
    return lambda context: VolumeController(replace(context, volumes=str(root)))


async def test_a_claim_of_the_default_class_gets_a_directory(client: Client, start: Start, tmp_path: Path) -> None:
    async with start(controller(tmp_path)):

        async def classes() -> list[str]:
            return [c.metadata.name for c in (await client.list(StorageClass)).items]

        await becomes(classes, ["hostpath"])
        await create_volume_claim(client)
        await becomes(lambda: phase(client), "Bound")
        (volume,) = (await client.list(PersistentVolume)).items
        assert volume.spec.hostPath is not None
        directory = Path(volume.spec.hostPath.path)
        assert directory.is_dir()  # noqa: ASYNC240  (a test may wait)
        assert directory.parent == tmp_path
        bound = await client.get(PersistentVolumeClaim, "c", "ns")
        assert bound.spec.volumeName == volume.metadata.name
        await client.delete(PersistentVolumeClaim, "c", "ns")
        await gone(client, PersistentVolumeClaim, "c", "ns")
        await gone(client, PersistentVolume, volume.metadata.name)
        assert not directory.exists()  # noqa: ASYNC240


async def test_the_smallest_volume_that_fits_is_taken(client: Client, start: Start) -> None:
    for name, size in (("small", "500Mi"), ("right", "2Gi"), ("large", "9Gi")):
        spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/data"}}
        await client.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    async with start(VolumeController):
        await create_volume_claim(client)
        await becomes(lambda: phase(client), "Bound")
        await becomes(lambda: volumes(client), [("9Gi", "Available"), ("2Gi", "Bound"), ("500Mi", "Available")])
        await client.delete(PersistentVolumeClaim, "c", "ns")
        await becomes(lambda: volumes(client), [("9Gi", "Available"), ("2Gi", "Released"), ("500Mi", "Available")])


async def test_a_claim_in_use_waits_for_its_pod(client: Client, start: Start, tmp_path: Path) -> None:
    async with start(controller(tmp_path)):
        await create_volume_claim(client, storageClassName="hostpath")
        await becomes(lambda: phase(client), "Bound")
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        await client.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, namespace="ns")
        await quiet()
        await client.delete(PersistentVolumeClaim, "c", "ns")
        await quiet()
        assert (await client.get(PersistentVolumeClaim, "c", "ns")).metadata.deletionTimestamp is not None
        await client.delete(Pod, "p", "ns", grace=0)
        await gone(client, PersistentVolumeClaim, "c", "ns")
