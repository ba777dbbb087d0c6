"""The objects of simulated nodes: devices in slices, addresses, models."""

from __future__ import annotations

import pytest

from dray.sim import hardware


@pytest.mark.parametrize(("devices", "slices"), [(0, 0), (1, 1), (128, 1), (129, 2), (500, 4)])
def test_devices_are_divided_into_slices_of_one_pool(devices: int, slices: int) -> None:
    trees = hardware.slice_trees(3, devices, "uid")
    assert len(trees) == slices
    names = [device["name"] for tree in trees for device in tree["spec"]["devices"]]
    assert names == [f"gpu-{number}" for number in range(devices)]
    assert {tree["spec"]["pool"]["resourceSliceCount"] for tree in trees} <= {slices}
    assert {tree["spec"]["nodeName"] for tree in trees} <= {"node-3"}


def test_every_node_has_an_address_of_its_own() -> None:
    assert len({hardware.address(number) for number in range(5000)}) == 5000


def test_every_fourth_device_is_larger_and_roots_are_shared_by_four() -> None:
    devices = [hardware.device_tree(number) for number in range(8)]
    models = [device["attributes"]["model"]["string"] for device in devices]
    assert models == ["a100", "a100", "a100", "h100"] * 2
    roots = [device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"] for device in devices]
    assert [roots.count(root) for root in dict.fromkeys(roots)] == [4, 4]
