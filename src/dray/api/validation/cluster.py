"""What an administrator sets for a cluster: limits, runtimes, certificates, flow control, further API servers."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.quantity import Quantity
from dray.api.types import apiregistration, certificates, core, flowcontrol, node
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, named, required_name, unchanged
from dray.api.validation.metadata import check_labels, metadata, metadata_update
from dray.api.validation.paths import METADATA, SPEC, Path
from dray.api.validation.placement import toleration

_LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
_USAGES = frozenset(
    {
        "signing",
        "digital signature",
        "content commitment",
        "key encipherment",
        "key agreement",
        "data encipherment",
        "cert sign",
        "crl sign",
        "encipher only",
        "decipher only",
        "any",
        "server auth",
        "client auth",
        "code signing",
        "email protection",
        "s/mime",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "timestamping",
        "ocsp signing",
        "microsoft sgc",
        "netscape sgc",
    }
)
_SHORTEST_CERTIFICATE = 600
_REQUEST = re.compile(
    rb"\s*-----BEGIN (NEW )?CERTIFICATE REQUEST-----\s(.*?)-----END (NEW )?CERTIFICATE REQUEST-----\s*", re.DOTALL
)
_PRECEDENCE_MAX = 10000
_SUBJECTS = ("Group", "ServiceAccount", "User")


# LimitRange


def create_limits(limits: core.LimitRange, context: Context) -> Errors:
    yield from metadata(limits.metadata, namespaced=True)
    seen: set[str] = set()
    for index, item in enumerate(limits.spec.limits):
        path = SPEC / "limits" / index
        yield from _limited_type(item, path)
        if item.type in seen:
            yield duplicate(path / "type", item.type)
        seen.add(item.type)
        yield from _amounts(item, path)


def update_limits(limits: core.LimitRange, old: core.LimitRange, context: Context) -> Errors:
    yield from create_limits(limits, context)
    yield from metadata_update(limits.metadata, old.metadata)


def _limited_type(item: core.LimitRangeItem, path: Path) -> Errors:
    if item.type not in _LIMITED and "/" not in item.type:
        yield invalid(path / "type", item.type, "must be a standard limit type or fully qualified")
    if item.type == "Pod":
        for field in ("default", "defaultRequest"):
            if getattr(item, field):
                yield forbidden(path / field, "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and not {"storage"} & (item.min.keys() | item.max.keys()):
        yield required(path, "either minimum or maximum storage value is required, but neither was provided")


def _amounts(item: core.LimitRangeItem, path: Path) -> Errors:
    """min ≤ defaultRequest ≤ default ≤ max, of each resource that is mentioned."""
    order: list[tuple[str, Mapping[str, str]]] = [
        ("min", item.min),
        ("defaultRequest", item.defaultRequest),
        ("default", item.default),
        ("max", item.max),
    ]
    words = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}
    for name in sorted({name for _, amounts in order for name in amounts}):
        yield from named(name, path / "max" % name, names.qualified_name)
        given = [(field, Quantity.parse(amounts[name])) for field, amounts in order if name in amounts]
        for position, (low, less) in enumerate(given):
            for high, more in given[position + 1 :]:
                if less > more:
                    at = path / (low if high == "max" or low == "min" else high) % name
                    text = f"{words[low]} value {less} is greater than {words[high]} value {more}"
                    yield invalid(at, str(less), text)
        ratio = item.maxLimitRequestRatio.get(name)
        if ratio is not None and Quantity.parse(ratio) < Quantity.parse(1):
            yield invalid(path / "maxLimitRequestRatio" % name, ratio, f"ratio {ratio} is less than 1")


# RuntimeClass


def create_runtime(runtime: node.RuntimeClass, context: Context) -> Errors:
    yield from metadata(runtime.metadata, namespaced=False)
    yield from named(runtime.handler, Path("handler"), names.label)
    if runtime.overhead is not None:
        for name, amount in runtime.overhead.podFixed.items():
            if Quantity.parse(amount).sign < 0:
                text = "must be greater than or equal to 0"
                yield invalid(Path("overhead") / "podFixed" % name, amount, text)
    if runtime.scheduling is not None:
        yield from check_labels(runtime.scheduling.nodeSelector, Path("scheduling") / "nodeSelector")
        for index, one in enumerate(runtime.scheduling.tolerations):
            yield from toleration(one, Path("scheduling") / "tolerations" / index)


def update_runtime(runtime: node.RuntimeClass, old: node.RuntimeClass, context: Context) -> Errors:
    yield from metadata_update(runtime.metadata, old.metadata)
    yield from unchanged(runtime.handler, old.handler, Path("handler"), runtime.handler)


# CertificateSigningRequest


def create_signing_request(request: certificates.CertificateSigningRequest, context: Context) -> Errors:
    yield from metadata(request.metadata, namespaced=False)
    spec = request.spec
    yield from _certificate_request(spec.request, SPEC / "request")
    if not spec.usages:
        yield required(SPEC / "usages")
    seen: set[str] = set()
    for index, usage in enumerate(spec.usages):
        if usage not in _USAGES:
            yield unsupported(SPEC / "usages" / index, usage, tuple(_USAGES))
        if usage in seen:
            yield duplicate(SPEC / "usages" / index, usage)
        seen.add(usage)
    yield from _signer(spec.signerName, SPEC / "signerName")
    if spec.expirationSeconds is not None and spec.expirationSeconds < _SHORTEST_CERTIFICATE:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid(SPEC / "expirationSeconds", spec.expirationSeconds, text)


def update_signing_request(
    request: certificates.CertificateSigningRequest, old: certificates.CertificateSigningRequest, context: Context
) -> Errors:
    yield from metadata_update(request.metadata, old.metadata)
    yield from unchanged(request.spec, old.spec, SPEC, request.spec)


def _certificate_request(text: str, path: Path) -> Errors:
    if not _REQUEST.fullmatch(base64.b64decode(text)):
        yield invalid(path, text, "PEM block type must be CERTIFICATE REQUEST")


def _signer(name: str, path: Path) -> Errors:
    if not name:
        yield required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or not rest:
        yield invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
    else:
        yield from named(domain, path, names.subdomain)
        if "." not in domain:
            yield invalid(path, name, "should be a domain with at least two segments separated by dots")


# Flow control


def create_flow_schema(schema: flowcontrol.FlowSchema, context: Context) -> Errors:
    yield from metadata(schema.metadata, namespaced=False)
    spec = schema.spec
    if not 1 <= spec.matchingPrecedence <= _PRECEDENCE_MAX:
        low = spec.matchingPrecedence < 1
        text = "must be a positive value" if low else f"must not be greater than {_PRECEDENCE_MAX}"
        yield invalid(SPEC / "matchingPrecedence", spec.matchingPrecedence, text)
    if spec.distinguisherMethod is not None and spec.distinguisherMethod.type not in ("ByNamespace", "ByUser"):
        method = spec.distinguisherMethod.type
        yield unsupported(SPEC / "distinguisherMethod" / "type", method, ("ByNamespace", "ByUser"))
    reference = spec.priorityLevelConfiguration.name
    yield from required_name(reference, SPEC / "priorityLevelConfiguration" / "name", names.subdomain)
    for index, rule in enumerate(spec.rules):
        yield from _flow_rule(rule, SPEC / "rules" / index)


def update_flow_schema(schema: flowcontrol.FlowSchema, old: flowcontrol.FlowSchema, context: Context) -> Errors:
    yield from create_flow_schema(schema, context)
    yield from metadata_update(schema.metadata, old.metadata)


def _flow_rule(rule: flowcontrol.PolicyRulesWithSubjects, path: Path) -> Errors:
    if not rule.subjects:
        yield required(path / "subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.subjects):
        here = path / "subjects" / index
        if subject.kind not in _SUBJECTS:
            yield unsupported(here / "kind", subject.kind, _SUBJECTS)
        elif getattr(subject, subject.kind[0].lower() + subject.kind[1:]) is None:
            field = subject.kind[0].lower() + subject.kind[1:]
            yield required(here / field, f"{field} is required when subject kind is '{subject.kind}'")
    if not rule.resourceRules and not rule.nonResourceRules:
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")


def create_priority_level(level: flowcontrol.PriorityLevelConfiguration, context: Context) -> Errors:
    yield from metadata(level.metadata, namespaced=False)
    spec = level.spec
    if spec.type not in ("Exempt", "Limited"):
        yield unsupported(SPEC / "type", spec.type, ("Exempt", "Limited"))
    elif spec.type == "Exempt":
        if spec.limited is not None:
            yield forbidden(SPEC / "limited", "must be nil if the type is not Limited")
    elif spec.limited is None:
        yield required(SPEC / "limited", "must not be empty when type is Limited")
    else:
        yield from _limited(spec.limited, SPEC / "limited")


def update_priority_level(
    level: flowcontrol.PriorityLevelConfiguration, old: flowcontrol.PriorityLevelConfiguration, context: Context
) -> Errors:
    yield from create_priority_level(level, context)
    yield from metadata_update(level.metadata, old.metadata)


def _limited(limited: flowcontrol.LimitedPriorityLevelConfiguration, path: Path) -> Errors:
    shares = limited.nominalConcurrencyShares
    if shares is not None and shares < 0:
        yield invalid(path / "nominalConcurrencyShares", shares, "must be a non-negative integer")
    response, here = limited.limitResponse, path / "limitResponse"
    if response.type not in ("Queue", "Reject"):
        yield unsupported(here / "type", response.type, ("Queue", "Reject"))
    elif response.type == "Reject" and response.queuing is not None:
        yield forbidden(here / "queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif response.type == "Queue" and response.queuing is None:
        yield required(here / "queuing", "must not be empty if limited.limitResponse.type is Limited")
    elif response.queuing is not None:
        for field in ("queues", "handSize", "queueLengthLimit"):
            yield from at_least(getattr(response.queuing, field), 1, here / "queuing" / field)


# APIService


def create_api_service(service: apiregistration.APIService, context: Context) -> Errors:
    yield from metadata(service.metadata, namespaced=False, name_check=names.path_segment)
    spec = service.spec
    expected = f"{spec.version}.{spec.group}"
    if service.metadata.name and service.metadata.name != expected:
        text = f'must be `spec.version+"."+spec.group`: "{expected}"'
        yield invalid(METADATA / "name", service.metadata.name, text)
    yield from required_name(spec.group, SPEC / "group", names.subdomain)
    yield from required_name(spec.version, SPEC / "version", names.label_1035)
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < getattr(spec, field) <= most:
            text = f"must be positive and less than {most}"
            yield invalid(SPEC / field, getattr(spec, field), text)
    if spec.service is not None:
        for field in ("namespace", "name"):
            if not getattr(spec.service, field):
                yield required(SPEC / "service" / field)
    elif spec.caBundle:
        yield invalid(SPEC / "caBundle", f"{len(spec.caBundle)} bytes", "local APIServices may not have a caBundle")
    if spec.insecureSkipTLSVerify and spec.caBundle:
        text = "may not be true if caBundle is present"
        yield invalid(SPEC / "insecureSkipTLSVerify", True, text)


def update_api_service(
    service: apiregistration.APIService, old: apiregistration.APIService, context: Context
) -> Errors:
    yield from metadata_update(service.metadata, old.metadata)
    yield from create_api_service(service, context)
