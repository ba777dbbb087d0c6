"""DefaultStorageClass: a PersistentVolumeClaim without a class name gets the cluster's default class, if any.

Of several default classes the newest applies, and of equally new ones the first by name.
"""

from __future__ import annotations

from dray.api.resources import BY_TYPE
from dray.api.types.core import PersistentVolumeClaim
from dray.api.types.storage import StorageClass
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, many

IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_CLASSES = BY_TYPE[StorageClass]


class DefaultStorageClass(Admission):
    """Sets the storage class of PersistentVolumeClaims."""

    name = "DefaultStorageClass"
    types = (PersistentVolumeClaim,)
    operations = ("CREATE",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def admit(self, request: AdmissionRequest) -> None:
        """Set the default class in a new PersistentVolumeClaim without a class name.

        An empty class name is kept. Does nothing if there is no default class.
        """
        if request.tree is None or request.subresource or request.operation != "CREATE":
            return
        spec = request.tree.setdefault("spec", {})
        if spec.get("storageClassName") is None and (name := self._default()):
            spec["storageClassName"] = name

    def _default(self) -> str:
        """Return the name of the newest class that is marked as default, or "" if none is."""
        marked = [found for found in many(self._reader, StorageClass) if is_default(found)]
        marked.sort(key=lambda found: found.metadata.name)
        newest = max(marked, key=lambda found: found.metadata.creationTimestamp or "", default=None)
        return newest.metadata.name if newest is not None else ""


def is_default(class_: StorageClass) -> bool:
    return any(class_.metadata.annotations.get(name) == "true" for name in IS_DEFAULT)
