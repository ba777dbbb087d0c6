"""Standard attributes of PCI devices, read from sysfs. Claims use them to request devices that are close together.

Left out: finding a driver's devices, which is the driver's task.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
SYSFS = Path("/sys")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


class SysfsError(ValueError):
    """sysfs does not hold the requested information. The text gives the reason."""


def pci_attributes(address: str, sysfs: Path = SYSFS) -> dict[str, str]:
    """Return the attributes pciBusID and pcieRoot of a PCI device, for use with `dray.driver.device`.

    `address` has a form such as 0000:1f:00.0. Raises SysfsError if the device does not exist.
    """
    return {PCI_BUS_ID: address, PCIE_ROOT: pcie_root(address, sysfs)}


def pci_address(device: Path) -> str:
    """Return the address of the PCI device behind an entry of sysfs, such as /sys/class/drm/card0 or
    /sys/class/net/eth0.

    For a virtual device, this is the nearest PCI function above it. Raises `SysfsError` if there is none.
    """
    target = Path(os.path.realpath(device / "device" if (device / "device").exists() else device))
    for part in reversed(target.parts):
        if _ADDRESS.fullmatch(part):
            return part
    raise SysfsError(f"{device} is not a PCI device: it leads to {target}")


def pcie_root(address: str, sysfs: Path = SYSFS) -> str:
    """Return the root complex of a PCI device, such as pci0000:00: the first part of its path below /sys/devices.

    Raises `SysfsError` if the device does not exist.
    """
    if not _ADDRESS.fullmatch(address):
        raise SysfsError(f"{address!r} is not a PCI address such as 0000:1f:00.0")
    link = sysfs / "bus/pci/devices" / address
    if not link.exists():
        raise SysfsError(f"there is no PCI device {address}: {link} does not exist")
    target = Path(os.path.realpath(link))
    devices = Path(os.path.realpath(sysfs / "devices"))
    root = target.relative_to(devices).parts[0] if target.is_relative_to(devices) else ""
    if not _ROOT.fullmatch(root) or target.name != address:
        raise SysfsError(f"{link} leads to {target}, which is not below a PCIe root of {devices}")
    return root
