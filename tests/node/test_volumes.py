"""Volumes as directories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.core import ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret
from dray.client import Client, SystemClock
from dray.node.environment import ConfigProblem, Sources, VariablePlace
from dray.node.hostpaths import HostPaths
from dray.node.projections import ProjectedTokens
from dray.node.runtime import BindMount
from dray.node.volumes import Volumes


async def mounted(client: Client, directory: Path, volume: dict[str, Any], **mount: Any) -> BindMount:
    tree = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "volumes": [{"name": "v", **volume}],
            "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}],
        },
    }
    pod = msgspec.convert(tree, Pod)
    [found] = await volumes_of(client, directory).mounts(pod, pod.spec.containers[0], {"PART": "bin"})
    return found


def volumes_of(client: Client, directory: Path) -> Volumes:
    tokens = ProjectedTokens(client, SystemClock())
    return Volumes(
        directory, Sources(client, "default"), VariablePlace("n", "h", "p"), HostPaths(directory / "root"), tokens
    )


def files(mount: BindMount) -> dict[str, str]:
    where = Path(mount.source)
    names = [name for name in os.listdir(where) if not name.startswith("..")]
    found = [file for name in names for file in (where / name, *(where / name).rglob("*"))]
    return {str(file.relative_to(where)): file.read_text() for file in found if file.is_file()}


async def test_an_empty_directory(client: Client, tmp_path: Path) -> None:
    mount = await mounted(client, tmp_path, {"emptyDir": {}}, readOnly=True)
    assert mount == BindMount(str(tmp_path / "v"), "/data", True)
    assert files(mount) == {}


async def test_a_path_of_the_host(client: Client, tmp_path: Path) -> None:
    for part in ({"subPath": "bin"}, {"subPathExpr": "$(PART)"}):
        assert await mounted(client, tmp_path, {"hostPath": {"path": "/usr"}}, **part) == BindMount(
            "/usr", "/data", subpath="bin"
        )
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
        ({"persistentVolumeClaim": {"claimName": "x"}}, 'persistentvolumeclaims "x" not found'),
        ({"nfs": {"server": "s", "path": "/p"}}, "volume v: only emptyDir, hostPath"),
    ],
)
async def test_what_is_missing_or_not_supported_is_named(
    client: Client, tmp_path: Path, volume: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigProblem, match=text):
        await mounted(client, tmp_path, volume)


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "../../x", "a/../../x", "..data", "..", "nul\0"])
async def test_no_path_of_a_file_leaves_its_volume(client: Client, tmp_path: Path, path: str) -> None:
    """Also of an API server that does not look at paths."""
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1"}}, namespace="default")
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    for volume in (
        {"downwardAPI": {"items": [{"path": path, **field}]}},
        {"configMap": {"name": "m", "items": [{"key": "a", "path": path}]}},
        {"projected": {"sources": [{"downwardAPI": {"items": [{"path": path, **field}]}}]}},
    ):
        if path == "..data":
            await mounted(client, tmp_path / "d", volume)
        else:
            with pytest.raises(ConfigProblem, match="volume v"):
                await mounted(client, tmp_path / "d", volume)
    assert [os.listdir(tmp_path), os.listdir(tmp_path / "d")] == [["d"], ["v"]]
    assert "x" not in (os.listdir("/etc/cron.d") if "cron.d" in os.listdir("/etc") else [])


@pytest.mark.parametrize("target", ["/etc", "../../outside"])
async def test_a_link_in_an_empty_directory_is_no_sub_path(client: Client, tmp_path: Path, target: str) -> None:
    mount = await mounted(client, tmp_path / "d", {"emptyDir": {}})
    (tmp_path / "outside").mkdir()
    (Path(mount.source) / "link").symlink_to(target)
    for part in ("link", "link/new"):
        with pytest.raises(ConfigProblem, match='failed to prepare subPath for volumeMount "v" of container "c"'):
            await mounted(client, tmp_path / "d", {"emptyDir": {}}, subPath=part)
    assert [*(tmp_path / "outside").iterdir()] == []


async def test_a_missing_sub_path_becomes_a_directory(client: Client, tmp_path: Path) -> None:
    mount = await mounted(client, tmp_path, {"emptyDir": {}}, subPath="a/b")
    assert (Path(mount.source) / mount.subpath).is_dir()


async def test_what_is_made_of_objects_is_read_only_and_follows_them(client: Client, tmp_path: Path) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1"}}, namespace="default")
    mount = await mounted(client, tmp_path, {"configMap": {"name": "m", "defaultMode": 0o440}})
    assert mount.readonly
    assert (Path(mount.source) / "a").stat().st_mode & 0o777 == 0o440
    await client.patch(ConfigMap, "m", {"data": {"a": "2", "b": "3"}}, "default")
    pod = msgspec.convert(
        {"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}}, Pod
    )
    again = volumes_of(client, tmp_path)  # as after a restart of the agent
    assert again.has_written(pod)
    await again.refresh(pod)
    assert files(mount) == {"a": "2", "b": "3"}
    await client.delete(ConfigMap, "m", "default")
    await again.refresh(pod)
    assert files(mount) == {"a": "2", "b": "3"}


async def test_a_link_planted_in_a_volume_of_files_is_not_written_through(client: Client, tmp_path: Path) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1"}}, namespace="default")
    mount = await mounted(client, tmp_path / "d", {"configMap": {"name": "m"}})
    victim = tmp_path / "victim"
    victim.write_text("whole")
    (Path(mount.source) / "a").unlink()
    (Path(mount.source) / "a").symlink_to(victim)
    assert files(await mounted(client, tmp_path / "d", {"configMap": {"name": "m"}})) == {"a": "1"}
    assert victim.read_text() == "whole"


async def bound(client: Client, directory: Path, uid: str) -> None:
    """A claim that says it is bound to a volume that says it belongs to the claim with this uid; empty: the right one."""
    size = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": "pv"}
    claim = await client.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, namespace="default")
    await client.patch(PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, "default", subresource="status")
    owner = {"name": "c", "namespace": "default", "uid": uid or claim.metadata.uid}
    held = {"capacity": size, "accessModes": ["ReadWriteOnce"], "claimRef": owner, "hostPath": {"path": str(directory)}}
    await client.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": held})


async def test_a_claim_leads_to_the_volume_that_is_bound_to_it(client: Client, tmp_path: Path) -> None:
    await bound(client, tmp_path / "data", "")
    mount = await mounted(client, tmp_path / "d", {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}})
    assert mount == BindMount(str(tmp_path / "data"), "/data", True)


async def test_a_volume_of_another_claim_is_refused(client: Client, tmp_path: Path) -> None:
    await bound(client, tmp_path / "data", "another")
    with pytest.raises(ConfigProblem, match="persistentvolume pv is not bound to persistentvolumeclaim c"):
        await mounted(client, tmp_path / "d", {"persistentVolumeClaim": {"claimName": "c"}})
