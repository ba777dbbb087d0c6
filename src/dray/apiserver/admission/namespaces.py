"""Namespaces must exist before their objects, and are created together with their default objects.

NamespaceLifecycle denies new objects in namespaces that do not exist or are terminating, and the deletion of system
namespaces. NamespaceDefaults writes the default service account and the ConfigMap with the CA certificate together
with a new namespace, so no client sees one without the other. Controllers restore these objects after a deletion, and
`bootstrap` at the next start.
"""

from __future__ import annotations

from collections.abc import Awaitable

from dray.api.errors import Forbidden, not_found
from dray.api.resources import BY_TYPE
from dray.api.types.core import Namespace
from dray.apiserver.admission import Admission, AdmissionRequest, Write
from dray.apiserver.read.reader import Reader, one
from dray.apiserver.security.authorization.bootstrap import NAMESPACES, namespace_defaults


class NamespaceLifecycle(Admission):
    """Guards creation in and deletion of namespaces."""

    name = "NamespaceLifecycle"
    operations = ("CREATE", "DELETE")
    reads = ()  # changes nothing

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_change = reader.last_change(BY_TYPE[Namespace])
        self._seen = -1
        self._open: set[str] = set()  # namespaces that take new objects, until a namespace changes

    def admit(self, request: AdmissionRequest) -> None:
        """Raise NotFound or Forbidden for a new object in a missing or terminating namespace.

        Runs before all other plugins, so that they do not report other errors first.
        """
        if request.operation != "CREATE" or not request.resource.namespaced:
            return
        if self._last_change.revision != self._seen:
            self._seen = self._last_change.revision
            self._open.clear()
        if request.namespace in self._open:
            return
        found = one(self._reader, Namespace, "", request.namespace)
        if found is None:
            raise not_found(BY_TYPE[Namespace], request.namespace)
        if found.metadata.deletionTimestamp or found.status.phase == "Terminating":
            raise _terminating(request)
        self._open.add(request.namespace)

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden for the deletion of a system namespace."""
        if request.operation == "DELETE" and request.concerns(Namespace) and request.name in NAMESPACES:
            raise request.forbidden("this namespace may not be deleted")


class NamespaceDefaults(Admission):
    """Adds the default objects of a namespace to its creation."""

    name = "NamespaceDefaults"
    types = (Namespace,)

    def __init__(self, reader: Reader, root_ca: str = "") -> None:
        self._reader = reader
        self._root_ca = root_ca

    def validate(self, request: AdmissionRequest) -> Awaitable[None]:
        return self.write(request)

    async def write(self, request: AdmissionRequest) -> None:
        """Add the default objects of a new namespace to the request's writes, except those that already exist.

        Does nothing for a dry run or other requests.
        """
        if request.operation != "CREATE" or not request.concerns(Namespace) or request.dry_run or request.subresource:
            return
        for resource, tree in namespace_defaults(request.name, self._root_ca):
            name = tree["metadata"]["name"]
            if self._reader.get(resource, request.name, name) is None:
                request.writes.append(Write(resource, request.name, name, tree, "0"))


def _terminating(request: AdmissionRequest) -> Forbidden:
    """Return the Forbidden error for a new object in a terminating namespace."""
    error = request.forbidden(
        f"unable to create new content in namespace {request.namespace} because it is being terminated"
    )
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {request.namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error
