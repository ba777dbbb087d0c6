"""FlowSchema: assigns requests to a priority level. Stored only; dray does not act on it."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, text
from dray.api.errors import invalid, required, unsupported
from dray.api.kind import STATUS, KindRules, Resource
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors, each
from dray.api.types import flowcontrol
from dray.api.written import as_go

_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def _method(schema: flowcontrol.FlowSchema) -> str:
    method = schema.spec.distinguisherMethod
    return method.type if method else ""


def _dangling(schema: flowcontrol.FlowSchema) -> str:
    return next((c.status for c in schema.status.conditions if c.type == "Dangling"), "")


EXEMPT = "exempt"  # the only schema and the only level without limits

KIND = Resource(
    flowcontrol.FlowSchema,
    namespaced=False,
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
        number("MatchingPrecedence", "spec.matchingPrecedence"),
        text("DistinguisherMethod", _method, NONE),
        AGE,
        text("MissingPL", _dangling, "?"),
    ),
    generation=("spec",),
    rules=KindRules(order=("metadata", "rules", "changes")),
    defaults={"spec.matchingPrecedence": 1000},
)


def exempt_schema(schema: flowcontrol.FlowSchema, _: Path | None) -> Errors:
    """Yield an error if a FlowSchema other than `exempt` has matchingPrecedence 1."""
    if schema.spec.matchingPrecedence == 1 and schema.metadata.name != EXEMPT:
        text = f"only the schema named '{EXEMPT}' may have matchingPrecedence 1"
        yield invalid(SPEC / "matchingPrecedence", 1, text)


def method(value: flowcontrol.FlowDistinguisherMethod, path: Path) -> Errors:
    """Yield an error if the distinguisher method is unknown."""
    if value.type not in _METHODS:
        yield unsupported(path / "type", as_go(value), _METHODS)


def verbs(values: Sequence[str], path: Path) -> Errors:
    """Yield an error if a rule has unknown verbs."""
    if "*" not in values and not set(values) <= set(_VERBS):
        yield unsupported(path, values, _VERBS)


def namespaces(rule: flowcontrol.ResourcePolicyRule, path: Path) -> Errors:
    """Yield errors in the namespaces of a rule: at least one unless cluster-scoped, and `*` only alone."""
    given, here = rule.namespaces or (), path / "namespaces"
    if not given and not rule.clusterScope:
        yield required(here, "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in given:
        if len(given) > 1:
            yield invalid(here, given, "if '*' is present, must not specify other namespaces")
    else:
        for index, name in enumerate(given):
            for text in names.label(name):
                text = f"each member of this list must be '*' or a DNS-1123 label; {text}"
                yield invalid(here / index, name, text)


def urls(values: Sequence[str], path: Path) -> Errors:
    """Yield errors in the non-resource URLs of a rule, unless `*` is present."""
    if "*" not in values:
        yield from each(values, path, _url)


def _url(url: str, path: Path) -> Errors:
    stars = url.count("*")
    if not url:
        yield invalid(path, url, "must not be empty")
    elif not url.startswith("/"):
        yield invalid(path, url, "must start with slash")
    elif " " in url:
        yield invalid(path, url, "must not contain white-space")
    elif "//" in url:
        yield invalid(path, url, "must not contain double slash")
    elif stars > 1 or (stars == 1 and not url.endswith("/*")):
        yield invalid(path, url, "wildcard can only do suffix matching")
