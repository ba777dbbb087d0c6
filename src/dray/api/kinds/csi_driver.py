"""CSIDriver: the properties of a storage driver. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import NONE, UNSET
from dray.api.columns import AGE, NAME, flag, text
from dray.api.kind import Resource
from dray.api.types import storage

KIND = Resource(
    storage.CSIDriver,
    namespaced=False,
    inert=True,
    columns=(
        NAME,
        flag("AttachRequired", lambda driver: driver.spec.attachRequired is not False),
        flag("PodInfoOnMount", "spec.podInfoOnMount"),
        flag("StorageCapacity", "spec.storageCapacity"),
        text("TokenRequests", lambda driver: ",".join(token.audience for token in driver.spec.tokenRequests), UNSET),
        flag("RequiresRepublish", "spec.requiresRepublish"),
        text("Modes", lambda driver: ",".join(driver.spec.volumeLifecycleModes), NONE),
        AGE,
    ),
    conditional=("v1",),
    defaults={
        "spec.attachRequired": True,
        "spec.podInfoOnMount": False,
        "spec.storageCapacity": False,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        "spec.requiresRepublish": False,
        "spec.seLinuxMount": False,
        "spec.preventPodSchedulingIfMissing": False,
        "spec.volumeLifecycleModes": ["Persistent"],
    },
    is_returned_when_deleted=True,
)
