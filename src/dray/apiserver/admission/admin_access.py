"""Admin access to devices requires a label on the namespace.

Admin access reaches devices that other claims use. So claims and templates may request it, and allocations grant it,
only in labelled namespaces. `strategy` drops the field if the feature is disabled.
"""

from __future__ import annotations

from typing import Any

from dray.api.errors import Invalid, forbidden
from dray.api.types.core import Namespace
from dray.api.types.resource import DeviceRequest, ResourceClaim, ResourceClaimTemplate
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, one

LABEL = "resource.kubernetes.io/admin-access"


class AdminAccess(Admission):
    """Denies admin access outside of labelled namespaces."""

    name = "DRAAdminAccess"
    types = (ResourceClaim, ResourceClaimTemplate)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Invalid if admin access is newly requested or granted in a namespace without the label.

        The label must have the value "true". A namespace that does not exist has no label.
        """
        field = _asked(request) if request.object is not None else ""
        if not field:
            return
        namespace = one(self._reader, Namespace, "", request.namespace)
        if namespace is None or namespace.metadata.labels.get(LABEL) != "true":
            text = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
            raise Invalid(request.resource, request.name, [forbidden(field, text)])


def _asked(request: AdmissionRequest) -> str:
    """Return the path of the field that newly requests or grants admin access.

    Returns "" if there is none, and for operations other than a create or an update of the status.
    """
    written: Any = request.object
    if request.operation == "CREATE":
        spec = written.spec.spec if isinstance(written, ResourceClaimTemplate) else written.spec
        return _request_field(spec.devices.requests or ())
    if request.subresource == "status" and request.operation == "UPDATE":
        granted: Any = request.old
        return "" if _result_field(granted) else _result_field(written)
    return ""


def _request_field(requests: tuple[DeviceRequest, ...]) -> str:
    """Return the path of the first request with admin access, or ""."""
    for index, request in enumerate(requests):
        if request.exactly and request.exactly.adminAccess:
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def _result_field(claim: ResourceClaim) -> str:
    """Return the path of the first allocation result with admin access, or ""."""
    for index, result in enumerate(claim.status.allocation.devices.results if claim.status.allocation else ()):
        if result.adminAccess:
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""
