"""IngressClass: the controller that serves the Ingresses of a class. Stored only; dray does not act on it."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid
from dray.api.kind import Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named
from dray.api.types import networking

_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def _parameters(class_: networking.IngressClass) -> str:
    found = class_.spec.parameters
    if found is None:
        return ""
    kind = f"{found.kind}.{found.apiGroup}" if found.apiGroup else found.kind
    return f"{kind}/{found.name}"


KIND = Resource(
    networking.IngressClass,
    namespaced=False,
    inert=True,
    columns=(NAME, text("Controller", "spec.controller"), text("Parameters", _parameters, NONE), AGE),
    generation=("spec",),
    defaults={"spec.parameters.scope": "Cluster"},
)


def domain_path(text: str, path: Path) -> Errors:
    """Yield an error if the text does not have the form DOMAIN/PATH, as in `acme.io/foo`."""
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from named(domain, path, names.subdomain)
        if not _HTTP_PATH.fullmatch(rest):
            yield invalid(path, rest, f"must be a valid path (regex used for validation is '{_HTTP_PATH.pattern}')")
