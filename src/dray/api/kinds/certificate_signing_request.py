"""CertificateSigningRequest: requests a signed certificate. Dray has no signer."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from dray.api import names
from dray.api.cells import NONE, duration
from dray.api.columns import AGE, NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.trees import tree_of
from dray.api.types import certificates
from dray.api.wire import Tree

_STATES = ("Denied", "Approved", "Failed")


def _requested(request: certificates.CertificateSigningRequest) -> str:
    expires = request.spec.expirationSeconds
    return "" if expires is None else duration(expires)


def _state(request: certificates.CertificateSigningRequest) -> str:
    held = {c.type for c in request.status.conditions}
    states = [state for state in _STATES if state in held] or ["Pending"]
    return ",".join([*states, "Issued"] if request.status.certificate else states)


_JUDGEMENTS = ("Approved", "Denied")


def _keep_spec(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """Revert changes of the spec: a request must not change after its approval."""
    tree["spec"] = tree_of(old.spec)


def _keep_certificate(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """Revert changes of the certificate: an approver cannot sign."""
    status = tree.setdefault("status", {})
    status.pop("certificate", None)
    if old.status.certificate:
        status["certificate"] = msgspec.to_builtins(old.status.certificate)


def _keep_judgement(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """Revert changes of the conditions Approved and Denied: a signer cannot approve."""
    status = tree.setdefault("status", {})
    judged = [tree_of(one) for one in old.status.conditions or () if one.type in _JUDGEMENTS]
    others = [one for one in status.get("conditions") or () if one.get("type") not in _JUDGEMENTS]
    status["conditions"] = [*judged, *others]


KIND = Resource(
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
    rules=KindRules(
        update="",
        name=names.path_segment,
        subresources={"approval": "certificates.update_approval", "status": "certificates.update_status"},
    ),
    on_update={"": _keep_spec, "approval": _keep_certificate, "status": _keep_judgement},
    selectable={"spec.signerName": attrgetter("spec.signerName")},
)
