"""CertificateSigningRequest: requests a signed certificate. Dray has no signer."""

from __future__ import annotations

import base64
import re
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from dray.api import names
from dray.api.cells import NONE, duration
from dray.api.columns import AGE, NAME, text
from dray.api.errors import duplicate, forbidden, invalid, required, too_long
from dray.api.kind import KindRules, Resource
from dray.api.paths import STATUS, Path
from dray.api.rules import Errors, required_one_of
from dray.api.trees import tree_of
from dray.api.types import certificates
from dray.api.wire import Tree

if TYPE_CHECKING:
    from dray.api.validation.context import Context


SigningRequest = certificates.CertificateSigningRequest
_LEGACY = "kubernetes.io/legacy-unknown"
_PEM = re.compile(
    rb"\s*-----BEGIN (NEW )?CERTIFICATE REQUEST-----\s(.*?)-----END (NEW )?CERTIFICATE REQUEST-----", re.DOTALL
)
_STATUSES = ("False", "True", "Unknown")
_DECISIONS = ("Approved", "Denied")
_OUTCOMES = (*_DECISIONS, "Failed")


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
        subresources={
            "approval": "certificate_signing_request.update_approval",
            "status": "certificate_signing_request.update_status",
        },
    ),
    on_update={"": _keep_spec, "approval": _keep_certificate, "status": _keep_judgement},
    selectable={"spec.signerName": attrgetter("spec.signerName")},
)


def update_status(request: SigningRequest, old: SigningRequest, context: Context) -> Errors:
    """Yield errors if a signer changes more than permitted: it can add a certificate once, but not approve or deny."""
    yield from update_approval(request, old, context)
    for kind in _DECISIONS:
        before, now = (_of_type(one, kind) for one in (old, request))
        if len(now) > len(before):
            yield forbidden(STATUS / "conditions", f'updates may not add a condition of type "{kind}"')
        elif len(now) == len(before) and now != before:
            yield forbidden(STATUS / "conditions", f'updates may not modify a condition of type "{kind}"')
    if old.status.certificate and request.status.certificate != old.status.certificate:
        yield forbidden(STATUS / "certificate", "updates may not modify existing certificate content")


def update_approval(request: SigningRequest, old: SigningRequest, context: Context) -> Errors:
    """Yield errors in the conditions of a request, or if an update removes an outcome (Approved, Denied or Failed)."""
    yield from _conditions(request, STATUS / "conditions")
    for kind in _OUTCOMES:
        if len(_of_type(request, kind)) < len(_of_type(old, kind)):
            yield forbidden(STATUS / "conditions", f'updates may not remove a condition of type "{kind}"')


def _of_type(request: SigningRequest, kind: str) -> list[certificates.CertificateSigningRequestCondition]:
    return [condition for condition in request.status.conditions if condition.type == kind]


def _conditions(request: SigningRequest, path: Path) -> Errors:
    seen: list[str] = []
    for index, condition in enumerate(request.status.conditions):
        here, kind = path / index, condition.type
        if not kind:
            yield required(here / "type")
        allowed = ("True",) if kind in _OUTCOMES else _STATUSES
        yield from required_one_of(condition.status, allowed, here / "status")
        if kind in _DECISIONS and any(other in seen for other in _DECISIONS if other != kind):
            yield invalid(here / "type", kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield duplicate(here / "type", kind)
        seen.append(kind)


def content(text: str, path: Path) -> Errors:
    """Yield an error if the text is not a base64-encoded PEM certificate request with a valid signature."""
    data = base64.b64decode(text)
    if not _PEM.match(data):
        yield invalid(path, text or None, "PEM block type must be CERTIFICATE REQUEST")
        return
    from cryptography import x509  # loads a library, and few clusters sign certificates

    try:
        sound = x509.load_pem_x509_csr(data).is_signature_valid
    except Exception as error:  # the library can raise any exception for a malformed request
        yield invalid(path, text, f"the certificate request cannot be read: {error}")
        return
    if not sound:
        yield invalid(path, text, "the signature of the certificate request is not valid")


def signer(name: str, path: Path) -> Errors:
    """Yield errors if the name does not have the form `example.com/signer`."""
    parts = name.split("/")
    if name == _LEGACY:
        yield invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    if not name:
        yield required(path)
        return
    if len(parts) != 2:
        yield invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    domain, rest = parts
    if len(domain) > names.SUBDOMAIN_MAX:
        yield too_long(path, names.SUBDOMAIN_MAX)
    labels = domain.split(".")
    for part, kinds, check in ((domain, labels, names.label), (rest, rest.split("."), names.subdomain)):
        wrong = next((label for label in kinds if check(label)), None)
        if wrong is not None:
            yield from (invalid(path, part, f'validating label "{wrong}": {text}') for text in check(wrong))
        if part is domain and len(labels) < 2:
            yield invalid(path, domain, "should be a domain with at least two segments separated by dots")
