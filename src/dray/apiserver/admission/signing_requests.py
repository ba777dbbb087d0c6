"""CertificateSigningRequests: record the requesting user, and restrict who approves and signs.

In addition to the right to the subresource, a user needs `approve` or `sign` on the signer (`signers` of
certificates.k8s.io, by name or by `DOMAIN/*`), as in Kubernetes' plugins CertificateApproval and CertificateSigning.
A client certificate with group `system:masters` cannot be requested (CertificateSubjectRestriction). Signing is not
part of this module.
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
    """Sets the user of a new CertificateSigningRequest, and checks who approves and signs it."""

    name = "SigningRequests"
    types = (CertificateSigningRequest,)
    operations = ("CREATE", "UPDATE")

    def __init__(self, authorizer: Union) -> None:
        self._authorizer = authorizer

    def admit(self, request: AdmissionRequest) -> None:
        """Set the user's name, UID, groups and extra in a new request, in place of those that the client gives."""
        if request.tree is None or request.subresource or request.operation != "CREATE":
            return
        spec = request.tree.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec.update(request.user.info())

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Forbidden for a request for system:masters, or without the right to approve or sign."""
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
        """Raise Forbidden unless the user may perform `verb` on the signer.

        A right to all signers of the domain (DOMAIN/*) suffices.
        """
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            if self._authorizer.authorize(request.user, Attributes(verb, _GROUP, "signers", name=name)).allowed:
                return
        raise request.forbidden(f'user not permitted to {verb} requests with signerName "{signer}"')


def _organizations(encoded: str) -> set[str]:
    """Return the organizations (groups) in an encoded certificate request; empty if it cannot be decoded."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_csr(base64.b64decode(encoded)).subject
    except (binascii.Error, ValueError):
        return set()
    return {str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
