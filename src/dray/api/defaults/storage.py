"""Defaults of volumes, claims for them, and the classes and drivers that provide them."""

from __future__ import annotations

from dray.api.defaults.pods import fill
from dray.api.wire import Tree


def claim(tree: Tree) -> None:
    fill(tree.setdefault("status", {}), "phase", "Pending")
    tree.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def volume(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    fill(spec, "persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    fill(tree.setdefault("status", {}), "phase", "Pending")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    if spec.get("iscsi") is not None:
        fill(spec["iscsi"], "iscsiInterface", "default")
    if spec.get("rbd") is not None:
        for name, value in (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")):
            fill(spec["rbd"], name, value)


def storage_class(tree: Tree) -> None:
    tree.setdefault("reclaimPolicy", "Delete")
    tree.setdefault("volumeBindingMode", "Immediate")


_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
    "preventPodSchedulingIfMissing": False,
}


def csi_driver(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    for name, value in _DRIVER.items():
        spec.setdefault(name, value)
    fill(spec, "volumeLifecycleModes", ["Persistent"])
