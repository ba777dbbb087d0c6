"""Volumes as directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.core import ConfigMap, Pod, Secret
from dray.client import Client
from dray.node.environment import ConfigProblem, Place, Sources
from dray.node.runtime import Mount
from dray.node.volumes import Volumes


async def mounted(client: Client, directory: Path, volume: dict[str, Any], **mount: Any) -> Mount:
    tree = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "volumes": [{"name": "v", **volume}],
            "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}],
        },
    }
    pod = msgspec.convert(tree, Pod)
    volumes = Volumes(pod, directory, Sources(client, "default"), Place("n", "h", "p"))
    [found] = await volumes.mounts(pod.spec.containers[0])
    return found


def files(mount: Mount) -> dict[str, str]:
    where = Path(mount.source)
    return {str(file.relative_to(where)): file.read_text() for file in where.rglob("*") if file.is_file()}


async def test_an_empty_directory(client: Client, tmp_path: Path) -> None:
    mount = await mounted(client, tmp_path, {"emptyDir": {}}, readOnly=True)
    assert mount == Mount(str(tmp_path / "v"), "/data", True)
    assert files(mount) == {}


async def test_a_path_of_the_host(client: Client, tmp_path: Path) -> None:
    assert (await mounted(client, tmp_path, {"hostPath": {"path": "/usr"}}, subPath="bin")).source == "/usr/bin"
    new = tmp_path / "new"
    await mounted(client, tmp_path, {"hostPath": {"path": str(new), "type": "DirectoryOrCreate"}})
    assert new.is_dir()
    with pytest.raises(ConfigProblem, match="hostPath /no/such does not exist"):
        await mounted(client, tmp_path, {"hostPath": {"path": "/no/such"}})


async def test_files_of_config_maps_secrets_and_the_pod(client: Client, tmp_path: Path) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}, namespace="default")
    await client.create(Secret, {"metadata": {"name": "s"}, "data": {"k": "c2VjcmV0"}}, namespace="default")
    sources = [
        {"configMap": {"name": "m", "items": [{"key": "a", "path": "deep/a"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    mount = await mounted(client, tmp_path / "1", {"projected": {"sources": sources}})
    assert files(mount) == {"deep/a": "1", "k": "secret", "name": "p"}
    plain = await mounted(client, tmp_path / "2", {"configMap": {"name": "m"}})
    assert (Path(plain.source) / "b").read_text() == "2"
    hidden = await mounted(client, tmp_path / "3", {"secret": {"secretName": "s"}})
    assert (Path(hidden.source) / "k").read_text() == "secret"


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        ({"persistentVolumeClaim": {"claimName": "x"}}, "volume v: only emptyDir, hostPath"),
    ],
)
async def test_what_is_missing_or_not_supported_is_named(
    client: Client, tmp_path: Path, volume: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigProblem, match=text):
        await mounted(client, tmp_path, volume)
