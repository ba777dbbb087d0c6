"""Which requests webhooks and policies match: rules, selectors, and the API version in which an object is sent.

With match policy Equivalent, a rule for one version of a resource also matches requests in other versions; the object
is then converted to the version of the rule. Some subresources have objects of another kind than their resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from dray.api.conversion import from_stored
from dray.api.resources import Resource
from dray.api.selectors import label_selector
from dray.api.types.admissionregistration import MatchResources, NamedRuleWithOperations
from dray.api.types.core import Namespace
from dray.api.types.meta import LabelSelector, ObjectMeta
from dray.api.wire import Wire, tree_of
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.read.reader import Reader, one
from dray.apiserver.wire.discovery import Subresource, subresource

OPTIONS_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Matcher:
    """Decides which requests a policy, binding or webhook matches."""

    def __init__(self, match: MatchResources) -> None:
        self._match = match

    def may_concern(self, request: AdmissionRequest) -> bool:
        """Return whether a rule matches requests like this one in some version.

        The object's name and labels are not considered.
        """
        rules, versions = self._match.resourceRules, request.resource.versions
        return any(_rule_matches(rule, request, version) for version in versions for rule in rules)

    def version(self, request: AdmissionRequest, reader: Reader) -> str | None:
        """Return the version in which the request matches, or None if it does not match.

        The requested version is preferred. Without resource rules, requests for all resources match. Exclude rules
        and the namespace and object selectors count too.
        """
        match = self._match
        if self._matched(match.excludeResourceRules, request) is not None:
            return None
        seen_as = (
            self._matched(match.resourceRules, request)
            if match.resourceRules
            else request.version or request.resource.stored
        )
        is_selected = (
            seen_as is not None
            and _namespace_selected(match.namespaceSelector, request, reader)
            and _object_selected(match.objectSelector, request)
        )
        return seen_as if is_selected else None

    def _matched(self, rules: Sequence[NamedRuleWithOperations], request: AdmissionRequest) -> str | None:
        """Return the version in which one of the rules matches the request, or None if none does.

        The requested version is tried first, the other versions of the resource only if the match policy is not
        Exact.
        """
        versions = [request.version or request.resource.stored]
        if self._match.matchPolicy != "Exact":
            versions += [version for version in request.resource.versions if version not in versions]
        named = [rule for rule in rules if not rule.resourceNames or request.name in rule.resourceNames]
        return next((v for v in versions if any(_rule_matches(rule, request, v) for rule in named)), None)


def _rule_matches(rule: NamedRuleWithOperations, request: AdmissionRequest, version: str) -> bool:
    """Return whether a rule matches a request in a version of its resource, regardless of the object's name."""
    return (
        _listed(rule.operations, request.operation)
        and _listed(rule.apiGroups, request.resource.group)
        and _listed(rule.apiVersions, version)
        and _in_scope(rule.scope, request.resource)
        and any(_resource_matches(pattern, request) for pattern in rule.resources)
    )


def described(request: AdmissionRequest, version: str) -> dict[str, Any]:
    """Return the request as AdmissionReviews and expressions see it, without objects.

    Members with the value "" are omitted.
    """
    resource = request.resource
    asked = request.version or resource.stored
    body = {
        "kind": _kind(request, version),
        "resource": _named(resource, version),
        "subResource": request.subresource,
        "requestKind": _kind(request, asked),
        "requestResource": _named(resource, asked),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": request.user.info(),
        "dryRun": request.dry_run,
        "options": _options(request),
    }
    return {key: value for key, value in body.items() if value != ""}


def _options(request: AdmissionRequest) -> dict[str, Any] | None:
    """Return the options of the request, or None for a CONNECT, whose object has them."""
    kind = OPTIONS_KINDS.get(request.operation)
    return {**request.options, "apiVersion": "meta.k8s.io/v1", "kind": kind} if kind else None


def presented(request: AdmissionRequest, version: str, state: Wire) -> dict[str, Any]:
    """Return the new or old object of a request in a version, as AdmissionReviews and expressions see it.

    `state` is the object to return.
    """
    if own_kind(request) is None:
        return shown(request.resource, version, state)
    kind = _kind(request, version)
    group = f"{kind['group']}/" if kind["group"] else ""
    return {**tree_of(state), "apiVersion": group + kind["version"], "kind": kind["kind"]}


def shown(resource: Resource, version: str, state: Wire) -> dict[str, Any]:
    """Return an object as a tree in a version, as a client would read it."""
    return from_stored(resource, version, tree_of(state))


def _listed(values: tuple[str, ...], value: str) -> bool:
    return "*" in values or value in values


def _in_scope(scope: str | None, resource: Resource) -> bool:
    return scope in (None, "", "*") or (scope == "Namespaced") == resource.namespaced


def _resource_matches(pattern: str, request: AdmissionRequest) -> bool:
    """Return whether a rule's pattern (pods, pods/status, */*, …) matches the request's resource and subresource.

    A pattern without a slash matches no subresource.
    """
    name, slash, subresource = pattern.partition("/")
    if name not in ("*", request.resource.plural):
        return False
    if not slash:
        return not request.subresource
    return subresource in ("*", request.subresource)


def _selects_everything(selector: LabelSelector | None) -> bool:
    return selector is None or not (selector.matchLabels or selector.matchExpressions)


def _namespace_selected(selector: LabelSelector | None, request: AdmissionRequest, reader: Reader) -> bool:
    """Return whether a selector matches the namespace's labels; False if the namespace does not exist.

    For a Namespace, its own labels count. Other cluster-scoped objects always match.
    """
    if _selects_everything(selector):
        return True
    if request.concerns(Namespace):
        namespace = cast("Namespace | None", request.object or request.old)
    elif request.namespace:
        namespace = one(reader, Namespace, "", request.namespace)
    else:
        return True
    return namespace is not None and label_selector(selector).matches(namespace.metadata.labels)


def _object_selected(selector: LabelSelector | None, request: AdmissionRequest) -> bool:
    """Return whether a selector matches the labels of the new or old object.

    Removing a label thus does not evade a policy.
    """
    if _selects_everything(selector):
        return True
    wanted = label_selector(selector)
    return any(wanted.matches(_labels(state)) for state in (request.object, request.old) if state)


def _labels(state: Wire) -> Mapping[str, str]:
    """Return the labels of an object; connection options have none."""
    metadata: ObjectMeta | None = getattr(state, "metadata", None)
    return metadata.labels if metadata is not None else {}


def own_kind(request: AdmissionRequest) -> Subresource | None:
    """Return the subresource if its objects have another kind than the resource, else None."""
    found = subresource(request.resource, request.subresource)
    return found if found.kind else None


def _kind(request: AdmissionRequest, version: str) -> dict[str, str]:
    """Return group, version and kind of the request's object, which for a subresource may be of another kind."""
    resource, own = request.resource, own_kind(request)
    if own is None:
        return {"group": resource.group, "version": version, "kind": resource.kind}
    return {"group": own.group or resource.group, "version": own.version or version, "kind": own.kind}


def _named(resource: Resource, version: str) -> dict[str, str]:
    """Return group, version and plural name of a resource."""
    return {"group": resource.group, "version": version, "resource": resource.plural}
