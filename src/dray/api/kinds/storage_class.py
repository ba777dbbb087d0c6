"""StorageClass: describes how volumes are provisioned."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, flag, text
from dray.api.kind import KindRules, Resource
from dray.api.types import storage

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _name(class_: storage.StorageClass) -> str:
    is_default = class_.metadata.annotations.get(_DEFAULT) == "true"
    return class_.metadata.name + (" (default)" if is_default else "")


KIND = Resource(
    storage.StorageClass,
    namespaced=False,
    short_names=("sc",),
    columns=(
        text("Name", _name, format="name"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", UNSET),
        flag("AllowVolumeExpansion", "allowVolumeExpansion"),
        AGE,
    ),
    rules=KindRules(update=""),
    defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    is_returned_when_deleted=True,
)
