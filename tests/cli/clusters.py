"""A cluster for commands that look at one: simulated nodes, some work, an administrator and a user who may do little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from dray.api.types.core import Pod
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.types.resource import DeviceClass, ResourceClaim
from dray.client.config import load
from dray.client.http import Http
from tests import objects
from tests.cli.running import Dray
from tests.waiting import eventually

ROLE = Path(__file__).parents[2] / "src/dray/examples/policies/pool-status-role.yaml"
DRIVER = "gpu.example.com"


class Cluster:
    """Where the kubeconfigs are: `admin`, and `guest`, who may ask for the status of pools."""

    def __init__(self, directory: Path) -> None:
        self.admin = directory / "kubeconfig"
        self.guest = directory / "guest"


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    tokens = directory / "tokens.csv"
    tokens.write_text('guest-token,guest,1,""\n')
    options = ("--nodes", "2", "--devices", "4", "--feature-gates", "DRAResourcePoolStatus=true")
    with Dray("up", "--dir", directory, "--port", "0", "--store", "memory", "--token-auth-file", tokens, *options):
        made = Cluster(directory)
        config = yaml.safe_load(made.admin.read_text())
        config["users"][0]["user"] = {"token": "guest-token"}
        made.guest.write_text(yaml.safe_dump(config))
        yield made


async def furnish(cluster: Cluster) -> None:
    """A role for the guest, as in KEP-5677, that is without `watch`; a pod that has two devices, and one that waits for five."""
    role = yaml.safe_load(ROLE.read_text())
    role["rules"][0]["verbs"] = ["create", "get", "list", "delete"]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    async with Http(load(str(cluster.admin))) as client:
        await client.create(ClusterRole, role)
        await client.create(
            ClusterRoleBinding, {"metadata": {"name": "guest"}, "roleRef": reference, "subjects": [subject]}
        )
        for name, count in (("runs", 2), ("waits", 5)):
            await client.create(ResourceClaim, claim_of(name, count))
            await client.create(Pod, objects.pod(name, namespace="default", claims=[name]))

        async def runs() -> bool:
            return (await client.get(Pod, "runs", "default")).status.phase == "Running"

        await eventually(runs)
        assert (await client.list(DeviceClass)).items


def claim_of(name: str, count: int) -> dict[str, Any]:
    return objects.claim(name, objects.request(device_class=DRIVER, count=count), namespace="default")
