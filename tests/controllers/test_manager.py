"""The controller manager: which controllers run, and that they run together."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import ConfigMap, Namespace, ServiceAccount
from dray.client import Client
from dray.controllers import CONTROLLERS, ControllerManager
from dray.controllers.registry import UnknownController
from tests.controllers.conftest import exists, gone
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
    with pytest.raises(UnknownController, match=r"leaves none to run, expected names, or \* as in \*,-namespace"):
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
