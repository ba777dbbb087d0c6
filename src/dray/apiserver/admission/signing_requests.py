"""A certificate is asked for by the user who sends the request, whatever the request says."""

from __future__ import annotations

from dray.api.types.certificates import CertificateSigningRequest
from dray.apiserver.admission import Admission, AdmissionRequest


class SigningRequester(Admission):
    """Writes the user into a new CertificateSigningRequest."""

    name = "SigningRequester"
    types = (CertificateSigningRequest,)
    operations = ("CREATE",)

    def admit(self, request: AdmissionRequest) -> None:
        if request.tree is None or request.subresource or request.operation != "CREATE":
            return
        spec = request.tree.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec.update(request.user.info())
