"""Requests for certificates: who asks is who sends the request, and only those judge and sign it whom a signer trusts.

Beside the right to the subresource, `approve` or `sign` on the signer is needed (`signers` of certificates.k8s.io, by
name or by `DOMAIN/*`), as Kubernetes' CertificateApproval and CertificateSigning want it. A client certificate that would
put somebody into `system:masters` is not asked for here (CertificateSubjectRestriction). Left out: signing.
"""

from __future__ import annotations

import base64
import binascii
from typing import cast

from dray.api.types.certificates import CertificateSigningRequest
from dray.api.users import MASTERS
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.security.authorization import Attributes, Union

_GROUP = "certificates.k8s.io"
_CLIENTS = "kubernetes.io/kube-apiserver-client"


class SigningRequests(Admission):
    """Writes the user into a new CertificateSigningRequest, and asks who approves and signs."""

    name = "SigningRequests"
    types = (CertificateSigningRequest,)
    operations = ("CREATE", "UPDATE")

    def __init__(self, authorizer: Union) -> None:
        self._authorizer = authorizer

    def admit(self, request: AdmissionRequest) -> None:
        if request.tree is None or request.subresource or request.operation != "CREATE":
            return
        spec = request.tree.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec.update(request.user.info())

    def validate(self, request: AdmissionRequest) -> None:
        new = cast("CertificateSigningRequest | None", request.object)
        old = cast("CertificateSigningRequest | None", request.old)
        if new is None:
            return
        if old is None:
            if new.spec.signerName == _CLIENTS and MASTERS in _organizations(new.spec.request):
                raise request.forbidden(f"use of {_CLIENTS} signer with {MASTERS} group is not allowed")
        elif request.subresource == "approval":
            self._check(request, old.spec.signerName, "approve")
        elif request.subresource == "status" and new.status.certificate != old.status.certificate:
            self._check(request, old.spec.signerName, "sign")

    def _check(self, request: AdmissionRequest, signer: str, verb: str) -> None:
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            if self._authorizer.authorize(request.user, Attributes(verb, _GROUP, "signers", name=name)).allowed:
                return
        raise request.forbidden(f'user not permitted to {verb} requests with signerName "{signer}"')


def _organizations(encoded: str) -> set[str]:
    """The groups that a certificate would put its holder into."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_csr(base64.b64decode(encoded)).subject
    except (binascii.Error, ValueError):
        return set()
    return {str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
