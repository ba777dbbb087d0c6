"""Ingresses and their classes: hosts, paths, and the services behind them."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, STATUS, Path
from dray.api.types import core, networking
from dray.api.validation.addresses import BAD_IP, address_of
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_most_bytes, each, named, required_name, unchanged

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_ENDING_PATHS = ("/..", "/.")
_CONTROLLER_MAX = 250
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def create_ingress(ingress: networking.Ingress, context: Context) -> Errors:
    yield from _ingress_spec(ingress.spec)
    said, class_ = ingress.metadata.annotations.get(_CLASS_ANNOTATION), ingress.spec.ingressClassName
    if said is not None and class_ is not None and said != class_:
        text = "must match `ingressClassName` when both are specified"
        yield invalid(Path("annotations") / _CLASS_ANNOTATION, said, text)


def update_ingress(ingress: networking.Ingress, old: networking.Ingress, context: Context) -> Errors:
    yield from _ingress_spec(ingress.spec)


def update_ingress_status(ingress: networking.Ingress, old: networking.Ingress, context: Context) -> Errors:
    for index, point in enumerate(ingress.status.loadBalancer.ingress):
        path = STATUS / "loadBalancer" / "ingress" / index
        if point.ip and address_of(point.ip) is None:
            yield invalid(path / "ip", point.ip, BAD_IP)
        if point.hostname:
            yield from named(point.hostname, path / "hostname", names.subdomain)
            if address_of(point.hostname) is not None:
                yield invalid(path / "hostname", point.hostname, "must be a DNS name, not an IP address")


def _ingress_spec(spec: networking.IngressSpec) -> Errors:
    if not spec.rules and spec.defaultBackend is None:
        yield invalid(SPEC, [], "either `defaultBackend` or `rules` must be specified")
    if spec.defaultBackend is not None:
        yield from _backend(spec.defaultBackend, SPEC / "defaultBackend")
    for index, tls in enumerate(spec.tls):
        for position, host in enumerate(tls.hosts):
            yield from named(host.removeprefix("*."), SPEC / "tls" / index / "hosts" / position, names.subdomain)
        if tls.secretName:
            yield from named(tls.secretName, SPEC / "tls" / index / "secretName", names.subdomain)
    for index, rule in enumerate(spec.rules):
        path = SPEC / "rules" / index
        if rule.host:
            yield from _host(rule.host, path / "host")
        if rule.http is not None:
            if not rule.http.paths:
                yield required(path / "http" / "paths")
            yield from each(rule.http.paths, path / "http" / "paths", _http_path)
    if spec.ingressClassName is not None:
        yield from named(spec.ingressClassName, SPEC / "ingressClassName", names.subdomain)


def _host(host: str, path: Path) -> Errors:
    if address_of(host) is not None:
        yield invalid(path, host, "must be a DNS name, not an IP address")
    yield from named(host.removeprefix("*."), path, names.subdomain)


def _http_path(item: networking.HTTPIngressPath, path: Path) -> Errors:
    if item.pathType is None:
        yield required(path / "pathType", "pathType must be specified")
        return
    if item.pathType not in _PATH_TYPES:
        yield unsupported(path / "pathType", item.pathType, _PATH_TYPES)
    else:
        yield from _url_path(item.path, item.pathType, path / "path")
    yield from _backend(item.backend, path / "backend")


def _url_path(text: str, kind: str, path: Path) -> Errors:
    specific = kind == "ImplementationSpecific"
    if (text or not specific) and not text.startswith("/"):
        yield invalid(path, text, "must be an absolute path")
    if not specific:
        yield from (invalid(path, text, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in text)
        for end in _NOT_ENDING_PATHS:
            if text.endswith(end):
                yield invalid(path, text, f"cannot end with '{end}'")


def _backend(backend: networking.IngressBackend, path: Path) -> Errors:
    if backend.service is not None and backend.resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif backend.resource is not None:
        yield from _reference(backend.resource, path / "resource")
    elif backend.service is not None:
        yield from _service_backend(backend.service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _reference(
    reference: core.TypedLocalObjectReference | networking.IngressClassParametersReference, path: Path
) -> Errors:
    if reference.apiGroup is not None:
        yield from named(reference.apiGroup, path / "apiGroup", names.subdomain)
    for field in ("kind", "name"):
        yield from required_name(getattr(reference, field), path / field, names.path_segment, f"{field} is required")


def _service_backend(service: networking.IngressServiceBackend, path: Path) -> Errors:
    yield from required_name(service.name, path / "service" / "name", names.label_1035)
    port, here = service.port, path / "service" / "port"
    if port.name and port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        yield from named(port.name, here / "name", names.port_name)
    elif port.number:
        yield from named(port.number, here / "number", names.port_number)
    else:
        yield required(path, "port name or number is required")


def create_ingress_class(class_: networking.IngressClass, context: Context) -> Errors:
    spec = class_.spec
    yield from at_most_bytes(spec.controller, _CONTROLLER_MAX, SPEC / "controller")
    yield from _domain_path(spec.controller, SPEC / "controller")
    parameters, path = spec.parameters, SPEC / "parameters"
    if parameters is None:
        return
    yield from _reference(parameters, path)
    scope, namespace = parameters.scope, parameters.namespace
    if scope is None:
        yield required(path / "scope")
    elif scope not in ("Cluster", "Namespace"):
        yield unsupported(path / "scope", scope, ("Cluster", "Namespace"))
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(path / "namespace", "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required(path / "namespace", "`parameters.scope` is set to 'Namespace'")
    else:
        yield from named(namespace, path / "namespace", names.label)


def update_ingress_class(class_: networking.IngressClass, old: networking.IngressClass, context: Context) -> Errors:
    yield from unchanged(class_.spec.controller, old.spec.controller, SPEC / "controller", class_.spec.controller)
    yield from create_ingress_class(class_, context)


def _domain_path(text: str, path: Path) -> Errors:
    domain, _, rest = text.partition("/")
    if not text:
        yield required(path)
    elif not domain or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from named(domain, path, names.subdomain)
        if not _HTTP_PATH.fullmatch(rest):
            yield invalid(path, rest, f"must be a valid path (regex used for validation is '{_HTTP_PATH.pattern}')")
