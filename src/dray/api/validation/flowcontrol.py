"""FlowSchemas and PriorityLevelConfigurations: who shares which part of a server, and how they wait."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, STATUS, Path
from dray.api.types import flowcontrol
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, required_name
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.written import as_go

EXEMPT = "exempt"  # the name of the one schema and the one level that nothing limits
_PRECEDENCE_MAX = 10000
_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_QUEUES_MAX = 10_000_000
_HASH_BITS = 60  # of the hash that deals hands of queues
_POSITIVE = "must be positive"
_NOT_NEGATIVE = "must be a non-negative integer"

Level = flowcontrol.PriorityLevelConfiguration
Condition = flowcontrol.FlowSchemaCondition | flowcontrol.PriorityLevelConfigurationCondition


def create_flow_schema(schema: flowcontrol.FlowSchema, context: Context) -> Errors:
    yield from metadata(schema.metadata, namespaced=False)
    spec = schema.spec
    yield from _precedence(spec.matchingPrecedence, schema.metadata.name, SPEC / "matchingPrecedence")
    if spec.distinguisherMethod is not None and spec.distinguisherMethod.type not in _METHODS:
        yield unsupported(SPEC / "distinguisherMethod" / "type", as_go(spec.distinguisherMethod), _METHODS)
    level, path = spec.priorityLevelConfiguration.name, SPEC / "priorityLevelConfiguration" / "name"
    yield from required_name(level, path, names.subdomain, "must reference a priority level")
    yield from each(spec.rules, SPEC / "rules", _rule)


def update_flow_schema(schema: flowcontrol.FlowSchema, old: flowcontrol.FlowSchema, context: Context) -> Errors:
    yield from create_flow_schema(schema, context)
    yield from metadata_update(schema.metadata, old.metadata)


def update_status(new: flowcontrol.FlowSchema | Level, old: flowcontrol.FlowSchema | Level, context: Context) -> Errors:
    seen: set[str] = set()
    conditions: Sequence[Condition] = new.status.conditions
    for index, condition in enumerate(conditions):
        path = STATUS / "conditions" / index / "type"
        if condition.type in seen:
            yield duplicate(path, condition.type)
        seen.add(condition.type)
        if not condition.type:
            yield required(path, "must not be empty")


def _precedence(value: int, name: str, path: Path) -> Errors:
    if value <= 0:
        yield invalid(path, value, "must be a positive value")
    if value > _PRECEDENCE_MAX:
        yield invalid(path, value, f"must not be greater than {_PRECEDENCE_MAX}")
    if value == 1 and name != EXEMPT:
        yield invalid(path, value, f"only the schema named '{EXEMPT}' may have matchingPrecedence 1")


def _rule(rule: flowcontrol.PolicyRulesWithSubjects, path: Path) -> Errors:
    if not rule.subjects:
        yield required(path / "subjects", "subjects must contain at least one value")
    yield from each(rule.subjects, path / "subjects", _subject)
    if not rule.resourceRules and not rule.nonResourceRules:
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    yield from each(rule.resourceRules, path / "resourceRules", _resource_rule)
    yield from each(rule.nonResourceRules, path / "nonResourceRules", _url_rule)


def _subject(subject: flowcontrol.Subject, path: Path) -> Errors:
    if subject.kind not in _SUBJECTS:
        yield unsupported(path / "kind", subject.kind, sorted(_SUBJECTS))
        return
    for kind, field in _SUBJECTS.items():
        given = getattr(subject, field)
        if kind != subject.kind:
            if given is not None:
                yield forbidden(path / field, f"{field} is forbidden when subject kind is not '{kind}'")
        elif given is None:
            yield required(path / field, f"{field} is required when subject kind is '{kind}'")
        elif isinstance(given, flowcontrol.ServiceAccountSubject):
            yield from _account(given, path / field)
        elif not given.name:
            yield required(path / field / "name")


def _account(account: flowcontrol.ServiceAccountSubject, path: Path) -> Errors:
    if account.name != "*":
        yield from required_name(account.name, path / "name", names.subdomain)
    detail = "must specify namespace for service account"
    yield from required_name(account.namespace, path / "namespace", names.label, detail)


def _verbs(verbs: Sequence[str], path: Path) -> Errors:
    if not verbs:
        yield required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _alone(verbs, "verbs", path)
    elif not set(verbs) <= set(_VERBS):
        yield unsupported(path, list(verbs), _VERBS)


def _alone(values: Sequence[str], words: str, path: Path) -> Errors:
    if "*" in values and len(values) > 1:
        yield invalid(path, list(values), f"if '*' is present, must not specify other {words}")


def _resource_rule(rule: flowcontrol.ResourcePolicyRule, path: Path) -> Errors:
    yield from _verbs(rule.verbs, path / "verbs")
    for field, one, words in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values: Sequence[str] = getattr(rule, field)
        if not values:
            yield required(path / field, f"resource rules must supply at least one {one}")
        yield from _alone(values, words, path / field)
    namespaces, here = rule.namespaces or (), path / "namespaces"
    if not namespaces and not rule.clusterScope:
        yield required(here, "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in namespaces:
        yield from _alone(namespaces, "namespaces", here)
    else:
        for index, name in enumerate(namespaces):
            for text in names.label(name):
                text = f"each member of this list must be '*' or a DNS-1123 label; {text}"
                yield invalid(here / index, name, text)


def _url_rule(rule: flowcontrol.NonResourcePolicyRule, path: Path) -> Errors:
    yield from _verbs(rule.verbs, path / "verbs")
    urls, here = rule.nonResourceURLs, path / "nonResourceURLs"
    if not urls:
        yield required(here, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _alone(urls, "non-resource URLs", here)
    else:
        yield from each(urls, here, _url)


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


# Priority levels


def create_priority_level(level: Level, context: Context) -> Errors:
    yield from metadata(level.metadata, namespaced=False)
    spec, path = level.spec, SPEC / "type"
    if (level.metadata.name == EXEMPT) != (spec.type == "Exempt"):
        yield invalid(path, spec.type, f"type must be 'Exempt' if and only if name is '{EXEMPT}'")
    if spec.type == "Exempt":
        if spec.limited is not None:
            yield forbidden(SPEC / "limited", "must be nil if the type is not Limited")
        if spec.exempt is not None:
            yield from _shares(spec.exempt, SPEC / "exempt")
    elif spec.type == "Limited":
        if spec.exempt is not None:
            yield forbidden(SPEC / "exempt", "must be nil if the type is Limited")
        if spec.limited is None:
            yield required(SPEC / "limited", "must not be empty when type is Limited")
        else:
            yield from _limited(spec.limited, SPEC / "limited")
    else:
        yield unsupported(path, spec.type, ("Exempt", "Limited"))


def update_priority_level(level: Level, old: Level, context: Context) -> Errors:
    yield from create_priority_level(level, context)
    yield from metadata_update(level.metadata, old.metadata)


def _shares(
    value: flowcontrol.ExemptPriorityLevelConfiguration | flowcontrol.LimitedPriorityLevelConfiguration, path: Path
) -> Errors:
    if (value.nominalConcurrencyShares or 0) < 0:
        yield invalid(path / "nominalConcurrencyShares", value.nominalConcurrencyShares, _NOT_NEGATIVE)
    if not 0 <= (value.lendablePercent or 0) <= 100:
        yield invalid(path / "lendablePercent", value.lendablePercent, "must be between 0 and 100, inclusive")


def _limited(limited: flowcontrol.LimitedPriorityLevelConfiguration, path: Path) -> Errors:
    yield from _shares(limited, path)
    response, here = limited.limitResponse, path / "limitResponse"
    if response.type not in ("Queue", "Reject"):
        yield unsupported(here / "type", response.type, ("Queue", "Reject"))
    elif response.type == "Reject" and response.queuing is not None:
        yield forbidden(here / "queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif response.type == "Queue" and response.queuing is None:
        yield required(here / "queuing", "must not be empty if limited.limitResponse.type is Limited")
    elif response.queuing is not None:
        yield from _queuing(response.queuing, here / "queuing")
    if (limited.borrowingLimitPercent or 0) < 0:
        text = f"if specified, {_NOT_NEGATIVE}"
        yield invalid(path / "borrowingLimitPercent", limited.borrowingLimitPercent, text)


def _queuing(queuing: flowcontrol.QueuingConfiguration, path: Path) -> Errors:
    queues, hand = queuing.queues, queuing.handSize
    if queuing.queueLengthLimit <= 0:
        yield invalid(path / "queueLengthLimit", queuing.queueLengthLimit, _POSITIVE)
    if queues <= 0:
        yield invalid(path / "queues", queues, _POSITIVE)
    elif queues > _QUEUES_MAX:
        yield invalid(path / "queues", queues, f"must not be greater than {_QUEUES_MAX}")
    if hand <= 0:
        yield invalid(path / "handSize", hand, _POSITIVE)
    elif hand > queues:
        yield invalid(path / "handSize", hand, f"should not be greater than queues ({queues})")
    elif hand > _HASH_BITS or math.perm(queues, hand) > 1 << _HASH_BITS:
        sizes = f"deckSize {queues} and handSize {hand}"
        text = f"required entropy bits of {sizes} should not be greater than {_HASH_BITS}"
        yield invalid(path / "handSize", hand, text)
