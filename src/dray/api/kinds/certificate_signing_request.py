"""CertificateSigningRequest: asks for a signed certificate. No part of dray signs one."""

from __future__ import annotations

from dray.api.cells import NONE, duration
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import certificates

_STATES = ("Denied", "Approved", "Failed")


def _requested(request: certificates.CertificateSigningRequest) -> str:
    expires = request.spec.expirationSeconds
    return "" if expires is None else duration(expires)


def _state(request: certificates.CertificateSigningRequest) -> str:
    held = {c.type for c in request.status.conditions}
    states = [state for state in _STATES if state in held] or ["Pending"]
    return ",".join([*states, "Issued"] if request.status.certificate else states)


KIND = Resource(
    "certificates.k8s.io",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    certificates.CertificateSigningRequest,
    namespaced=False,
    short_names=("csr",),
    subresources=("approval", "status"),
    inert=True,
    columns=(
        NAME,
        AGE,
        text("SignerName", "spec.signerName", NONE),
        text("Requestor", "spec.username"),
        text("RequestedDuration", _requested, NONE),
        text("Condition", _state),
    ),
)
