"""The controller manager: which controllers run, and that they run together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Forbidden
from dray.api.gates import FeatureGates
from dray.api.types.batch import Job
from dray.api.types.core import ConfigMap, Namespace, Pod, ServiceAccount
from dray.api.types.storage import StorageClass
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, Controller, InProcess
from dray.controllers import CONTROLLERS, ControllerManager
from dray.controllers.registry import UnknownController
from tests.controllers.conftest import exists, gone
from tests.permissions import allow, rule, user_client
from tests.waiting import eventually, within


def test_all_controllers_run_unless_told_otherwise(client: Client) -> None:
    everything = FeatureGates.parse("AllAlpha=true,AllBeta=true")
    assert [*ControllerManager(client, gates=everything).controllers] == [*CONTROLLERS]
    assert [*ControllerManager(client, controllers="namespace, serviceaccount").controllers] == [
        "namespace",
        "serviceaccount",
    ]
    assert "namespace" not in ControllerManager(client, controllers="*,-namespace").controllers


def test_a_controller_whose_gate_is_off_does_not_run(client: Client) -> None:
    gates = FeatureGates.parse("DynamicResourceAllocation=false")
    assert "resourceclaim" not in ControllerManager(client, gates=gates).controllers


def test_an_unknown_name_is_refused_with_the_known_ones(client: Client) -> None:
    with pytest.raises(UnknownController, match=r"unknown name 'nope', expected one of .*garbage-collector,"):
        ControllerManager(client, controllers="nope")


@pytest.mark.parametrize("names", ["", " , ", "-namespace", "namespace,-namespace"])
def test_a_list_that_names_none_is_refused(client: Client, names: str) -> None:
    with pytest.raises(UnknownController, match=r"selects no controller, expected names, or \* as in \*,-namespace"):
        ControllerManager(client, controllers=names)


async def test_a_namespace_is_filled_emptied_and_removed_by_all_together(client: Client) -> None:
    manager = ControllerManager(client)
    running = asyncio.create_task(manager.run())
    await within(manager.ready.wait())
    await client.create(Namespace, {"metadata": {"name": "ns"}})

    async def filled() -> bool:
        return await exists(client, ServiceAccount, "default", "ns")

    await eventually(filled)
    await client.create(ConfigMap, {"metadata": {"name": "a"}}, namespace="ns")
    await client.delete(Namespace, "ns")
    await gone(client, Namespace, "ns")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("informer")] == []


async def test_a_missing_permission_stops_its_controller_only_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = await Running.open(ServerSettings(disabled_plugins=("ServiceAccount",)))
    try:
        admin = InProcess(running.api, ADMIN)
        rules = (rule("", "namespaces", "serviceaccounts"), rule("batch", "jobs"))
        await allow(admin, "u", *rules)
        manager = ControllerManager(user_client(running, "u"), controllers="serviceaccount,job")
        task = asyncio.create_task(manager.run())
        await within(manager.ready.wait())
        await admin.create(Namespace, {"metadata": {"name": "ns"}})
        await eventually(lambda: exists(admin, ServiceAccount, "default", "ns"))
        said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert [text for text in said if text.startswith("controller ")] == [
            'controller job does not run: pods is forbidden: User "u" cannot list resource "pods" in API group "" at the '
            "cluster scope"
        ]
        main = {"name": "main", "image": "app"}
        template = {"spec": {"containers": [main], "restartPolicy": "Never"}}
        await admin.create(Job, {"metadata": {"name": "j"}, "spec": {"template": template}}, namespace="ns")
        await allow(admin, "u", *rules, rule("", "pods"), rule("batch", "jobs/status"))

        async def has_pods() -> bool:
            return bool((await admin.list(Pod, "ns")).items)

        await eventually(has_pods)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        await running.close()


async def test_a_refused_write_of_one_controller_ends_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        """A client that may not create StorageClasses."""

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        async def create(self, type_: type[Any], *arguments: Any, **options: Any) -> Any:
            if type_ is StorageClass:
                raise Forbidden("storageclasses is forbidden: no")
            return await client.create(type_, *arguments, **options)

    refusing: Any = Refusing()
    manager = ControllerManager(refusing, controllers="persistentvolume-binder,serviceaccount", volumes="/volumes")
    task = asyncio.create_task(manager.run())
    await within(manager.ready.wait())
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    await eventually(lambda: exists(client, ServiceAccount, "default", "ns"))
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == ["restarting controller persistentvolume-binder: storageclasses is forbidden: no"]


async def test_a_right_that_is_missing_for_many_objects_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    async def refused(key: str) -> None:
        where = f'in the namespace "{key}"'
        raise Forbidden(f'pods "{key}" is forbidden: User "u" cannot delete resource "pods" in API group "" {where}')

    controller = Controller("c", refused)
    for number in range(3):
        controller.queue.add(f"p{number}")
    task = asyncio.create_task(controller.run())
    await eventually(lambda: len(controller.queue) == 0 and any(caplog.records))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
