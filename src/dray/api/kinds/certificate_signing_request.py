"""CertificateSigningRequest: asks for a signed certificate. No part of dray signs one."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import certificates

KIND = Resource(
    "certificates.k8s.io",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    certificates.CertificateSigningRequest,
    namespaced=False,
    short_names=("csr",),
    subresources=("approval", "status"),
    inert=True,
)
