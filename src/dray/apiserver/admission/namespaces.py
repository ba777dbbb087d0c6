"""Namespaces come before what is in them, and bring along what everything in them expects.

NamespaceLifecycle refuses new objects in namespaces that do not exist or are going away, and keeps those that the system
lives in. NamespaceDefaults writes, together with a new namespace, its default service account and the configuration map
with the authority's certificate, so that no client ever sees one without the other. Left out: restoring them after
somebody deletes them, which controllers do, and `bootstrap` at the next start.
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
    """Guards the beginning and the end of namespaces."""

    name = "NamespaceLifecycle"
    operations = ("CREATE", "DELETE")
    reads = ()  # it changes nothing, and refuses again

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def admit(self, request: AdmissionRequest) -> None:
        """Before all other plugins, so that nothing else is said about objects in a namespace that goes."""
        if request.operation != "CREATE" or not request.resource.namespaced:
            return
        found = one(self._reader, Namespace, "", request.namespace)
        if found is None:
            raise not_found(BY_TYPE[Namespace], request.namespace)
        if found.metadata.deletionTimestamp or found.status.phase == "Terminating":
            raise _terminating(request)

    def validate(self, request: AdmissionRequest) -> None:
        if request.operation == "DELETE" and request.concerns(Namespace) and request.name in NAMESPACES:
            raise request.forbidden("this namespace may not be deleted")


class NamespaceDefaults(Admission):
    """Brings new namespaces what every namespace has."""

    name = "NamespaceDefaults"
    types = (Namespace,)

    def __init__(self, reader: Reader, root_ca: str = "") -> None:
        self._reader = reader
        self._root_ca = root_ca

    def validate(self, request: AdmissionRequest) -> Awaitable[None]:
        return self.write(request)

    async def write(self, request: AdmissionRequest) -> None:
        """What was left behind by an earlier namespace of the same name is kept."""
        if request.operation != "CREATE" or not request.concerns(Namespace) or request.dry_run or request.subresource:
            return
        for resource, tree in namespace_defaults(request.name, self._root_ca):
            name = tree["metadata"]["name"]
            if self._reader.get(resource, request.name, name) is None:
                request.writes.append(Write(resource, request.name, name, tree, "0"))


def _terminating(request: AdmissionRequest) -> Forbidden:
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
