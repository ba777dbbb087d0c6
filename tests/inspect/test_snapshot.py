"""Reading a cluster: what may not be read and what is not there are told apart."""

from __future__ import annotations

from dray.api.types.core import Node, Pod, Secret
from dray.api.types.rbac import RoleBinding
from dray.api.types.resource import ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from dray.api.users import ADMIN, AUTHENTICATED, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess
from dray.client.config import Config
from dray.client.http import Http
from dray.inspect.reading import fetch, read
from tests.client.conftest import listening


async def test_a_user_of_one_namespace_gets_what_is_there() -> None:
    running = await Running.open(ServerSettings(disabled_plugins=("ServiceAccount",)))
    admin = InProcess(running.api, ADMIN)
    for namespace in ("default", "kube-system"):
        tree = {
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await admin.create(Pod, tree)
    await admin.create(
        RoleBinding,
        {
            "metadata": {"name": "jane", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        },
    )
    jane = InProcess(running.api, User("jane", groups=(AUTHENTICATED,)))
    snapshot = await fetch(jane, "default")
    assert [pod.metadata.namespace for pod in snapshot.all(Pod)] == ["default"]
    assert {Node, ResourceSlice} <= snapshot.unreadable
    assert ResourceClaim not in snapshot.unreadable
    assert {ResourceClaim, Pod} <= snapshot.partial
    assert "pods of other namespaces" in snapshot.blind_spots()
    assert "nodes" in snapshot.blind_spots()
    assert (await read(jane, [(Secret, "")], "default")).unreadable == {Secret}
    await running.close()


async def test_what_a_cluster_does_not_serve_is_noted() -> None:
    running = await Running.open(ServerSettings(authenticate=False))
    async with listening(running) as address, Http(Config(address)) as client:
        snapshot = await fetch(client, "default", (ResourcePoolStatusRequest,))
        assert ResourcePoolStatusRequest in snapshot.unserved
        assert snapshot.unreadable == frozenset()
        running.drain()
    await running.close()
