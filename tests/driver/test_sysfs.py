"""Standard attributes from a sysfs made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.driver.sysfs import SysfsError, pci_address, pci_attributes, pcie_root

ADDRESS = "0000:3b:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A GPU behind a bridge, a network card with a virtual function's driver below it, and a device without PCI."""
    real = tmp_path / "devices/pci0000:3a/0000:3a:00.0" / ADDRESS
    (real / "drm/card0").mkdir(parents=True)
    (tmp_path / "devices/virtual/net/lo").mkdir(parents=True)
    (tmp_path / "devices/platform" / "0000:ff:00.0").mkdir(parents=True)
    bus = tmp_path / "bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / ADDRESS).symlink_to(f"../../../devices/pci0000:3a/0000:3a:00.0/{ADDRESS}")
    (bus / "0000:ff:00.0").symlink_to("../../../devices/platform/0000:ff:00.0")
    (tmp_path / "class/drm").mkdir(parents=True)
    (tmp_path / "class/drm/card0").symlink_to(real / "drm/card0")
    (real / "drm/card0/device").symlink_to(real)
    return tmp_path


def test_both_attributes_of_a_device(sysfs: Path) -> None:
    assert pci_attributes(ADDRESS, sysfs) == {
        "resource.kubernetes.io/pciBusID": ADDRESS,
        "resource.kubernetes.io/pcieRoot": "pci0000:3a",
    }


def test_the_address_behind_a_class_entry(sysfs: Path) -> None:
    assert pci_address(sysfs / "class/drm/card0") == ADDRESS


@pytest.mark.parametrize("address", ["", "3b:00.0", "0000:3B:00.0", "0000:3b:00.8", "../../etc"])
def test_what_is_no_address_is_refused(sysfs: Path, address: str) -> None:
    with pytest.raises(SysfsError, match="not a PCI address"):
        pcie_root(address, sysfs)


def test_what_is_not_there_or_not_below_a_root_is_refused(sysfs: Path) -> None:
    with pytest.raises(SysfsError, match="no PCI device"):
        pcie_root("0000:00:00.0", sysfs)
    with pytest.raises(SysfsError, match="not below a PCIe root"):
        pcie_root("0000:ff:00.0", sysfs)
    with pytest.raises(SysfsError, match="not a PCI device"):
        pci_address(sysfs / "devices/virtual/net/lo")
