"""Who may do what: roles, bindings, admission webhooks, and the reviews that ask about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, Path
from dray.api.types import admissionregistration, apiextensions, authentication, authorization, rbac
from dray.api.validation.context import Context
from dray.api.validation.expressions import Expressions, match_conditions, texts
from dray.api.validation.lists import Errors, each, named, one_of, unchanged
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.placement import label_selector
from dray.api.written import as_go

RBAC_GROUP = "rbac.authorization.k8s.io"
MOST_PERMISSIONS = 10_000  # of a role: each verb on each resource of each group, and on each object that is named
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES = ("Fail", "Ignore")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
MATCH_POLICIES = ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")

Webhook = admissionregistration.ValidatingWebhook | admissionregistration.MutatingWebhook
WebhookConfiguration = (
    admissionregistration.ValidatingWebhookConfiguration | admissionregistration.MutatingWebhookConfiguration
)
Role = rbac.Role | rbac.ClusterRole
Binding = rbac.RoleBinding | rbac.ClusterRoleBinding


# Roles


def create_role(role: Role, context: Context) -> Errors:
    namespaced = isinstance(role, rbac.Role)
    yield from metadata(role.metadata, namespaced, names.path_segment)
    yield from _rules(role, namespaced)


def update_role(role: Role, old: Role, context: Context) -> Errors:
    yield from create_role(role, context)
    yield from metadata_update(role.metadata, old.metadata)


def _rules(role: Role, namespaced: bool) -> Errors:
    def rule(item: rbac.PolicyRule, path: Path) -> Errors:
        if item.nonResourceURLs:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(path / "nonResourceURLs", list(item.nonResourceURLs), text)
            if item.apiGroups or item.resources or item.resourceNames:
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(path / "nonResourceURLs", list(item.nonResourceURLs), text)
            return
        if not item.apiGroups:
            yield required(path / "apiGroups", "resource rules must supply at least one api group")
        if not item.resources:
            yield required(path / "resources", "resource rules must supply at least one resource")

    yield from each(role.rules or (), Path("rules"), rule)
    if (count := sum(map(_permissions, role.rules or ()))) > MOST_PERMISSIONS:
        text = f"the rules come to {count} permissions (verbs times groups times resources times names)"
        yield forbidden(Path("rules"), f"{text}, at most {MOST_PERMISSIONS} are allowed; split the role or use '*'")
    aggregation = getattr(role, "aggregationRule", None)
    if aggregation is not None:
        path = Path("aggregationRule") / "clusterRoleSelectors"
        if not aggregation.clusterRoleSelectors:
            yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        yield from each(aggregation.clusterRoleSelectors, path, label_selector)


def _permissions(rule: rbac.PolicyRule) -> int:
    objects = len(rule.apiGroups) * len(rule.resources) * max(1, len(rule.resourceNames))
    return len(rule.verbs) * (objects + len(rule.nonResourceURLs))


def create_binding(binding: Binding, context: Context) -> Errors:
    namespaced = isinstance(binding, rbac.RoleBinding)
    yield from metadata(binding.metadata, namespaced, names.path_segment)
    reference, path = binding.roleRef, Path("roleRef")
    if reference.apiGroup != RBAC_GROUP:
        yield unsupported(path / "apiGroup", reference.apiGroup, (RBAC_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    yield from one_of(reference.kind, kinds, path / "kind")
    if reference.name:
        yield from named(reference.name, path / "name", names.path_segment)

    def subject(item: rbac.Subject, here: Path) -> Errors:
        yield from _subject(item, namespaced, here)

    yield from each(binding.subjects, Path("subjects"), subject)


def update_binding(binding: Binding, old: Binding, context: Context) -> Errors:
    yield from create_binding(binding, context)
    yield from metadata_update(binding.metadata, old.metadata)
    yield from unchanged(binding.roleRef, old.roleRef, Path("roleRef"), as_go(binding.roleRef))


def _subject(item: rbac.Subject, namespaced: bool, path: Path) -> Errors:
    if item.kind == "ServiceAccount":
        if item.name:
            yield from named(item.name, path / "name", names.subdomain)
        if item.apiGroup:
            yield unsupported(path / "apiGroup", item.apiGroup, ("",))
        if not namespaced and not item.namespace:
            yield required(path / "namespace")
    elif item.kind in ("User", "Group"):
        if item.apiGroup != RBAC_GROUP:
            yield unsupported(path / "apiGroup", item.apiGroup, (RBAC_GROUP,))
    else:
        yield unsupported(path / "kind", item.kind, ("ServiceAccount", "User", "Group"))


# Webhooks


def create_webhooks(configuration: WebhookConfiguration, context: Context) -> Errors:
    yield from _webhooks(configuration)
    yield from _conditions(configuration.webhooks, context, set())


def update_webhooks(configuration: WebhookConfiguration, old: WebhookConfiguration, context: Context) -> Errors:
    """Conditions are not judged again when all of them stay as they are."""
    yield from _webhooks(configuration)
    if [webhook.matchConditions for webhook in configuration.webhooks] != [w.matchConditions for w in old.webhooks]:
        stored = texts(condition for webhook in old.webhooks for condition in webhook.matchConditions)
        yield from _conditions(configuration.webhooks, context, stored)
    yield from metadata_update(configuration.metadata, old.metadata, any_finalizer=True)


def _webhooks(configuration: WebhookConfiguration) -> Errors:
    yield from metadata(configuration.metadata, namespaced=False, any_finalizer=True)
    seen: set[str] = set()
    webhooks: Sequence[Webhook] = configuration.webhooks
    for index, webhook in enumerate(webhooks):
        path = Path("webhooks") / index
        yield from _webhook(webhook, path)
        if webhook.name and webhook.name in seen:
            yield duplicate(path / "name", webhook.name)
        seen.add(webhook.name)


def _conditions(webhooks: Sequence[Webhook], context: Context, stored: set[str]) -> Errors:
    """The checker is asked for only where there is something to check: it takes time to get ready."""
    for index, webhook in enumerate(webhooks):
        if webhook.matchConditions:
            expressions = Expressions(context.policy_expressions(False, False), {"condition": stored})
            path = Path("webhooks") / index / "matchConditions"
            yield from match_conditions(webhook.matchConditions, path, expressions)


def _webhook(webhook: Webhook, path: Path) -> Errors:
    if not webhook.name:
        yield required(path / "name")
    elif faults := names.subdomain(webhook.name):
        yield invalid(path / "name", webhook.name, ",".join(faults))
    elif webhook.name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(path / "name", webhook.name, text)
    if not webhook.admissionReviewVersions:
        yield required(path / "admissionReviewVersions", f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
    elif not set(webhook.admissionReviewVersions) & set(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid(path / "admissionReviewVersions", list(webhook.admissionReviewVersions), text)
    yield from each(webhook.rules, path / "rules", operation_rule)
    yield from one_of(webhook.failurePolicy, FAILURE_POLICIES, path / "failurePolicy")
    yield from one_of(webhook.matchPolicy, MATCH_POLICIES, path / "matchPolicy")
    if webhook.sideEffects is None:
        yield required(path / "sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    else:
        yield from one_of(webhook.sideEffects, _SIDE_EFFECTS, path / "sideEffects")
    if webhook.timeoutSeconds is not None and not 1 <= webhook.timeoutSeconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(path / "timeoutSeconds", webhook.timeoutSeconds, text)
    yield from label_selector(webhook.namespaceSelector, path / "namespaceSelector")
    yield from label_selector(webhook.objectSelector, path / "objectSelector")
    if isinstance(webhook, admissionregistration.MutatingWebhook):
        yield from one_of(webhook.reinvocationPolicy, REINVOCATION_POLICIES, path / "reinvocationPolicy")
    yield from webhook_client(webhook.clientConfig, path / "clientConfig")


def webhook_client(
    config: admissionregistration.WebhookClientConfig | apiextensions.WebhookClientConfig, path: Path
) -> Errors:
    if (config.url is None) == (config.service is None):
        yield required(path, "exactly one of url or service is required")
    elif config.url is not None:
        yield from _webhook_url(config.url, path / "url")
    elif config.service is not None:
        yield from _webhook_service(config.service, path / "service")


def _webhook_url(text: str, path: Path) -> Errors:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
        if any(char.isspace() for char in text):
            raise ValueError("invalid character in URL")
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{form}")
        return
    user, at, host = url.netloc.rpartition("@")
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{form}")
    if not host:
        yield invalid(path, host, f"host must be provided{form}")
    if at:
        yield invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _webhook_service(
    service: admissionregistration.ServiceReference | apiextensions.ServiceReference, path: Path
) -> Errors:
    for field in ("name", "namespace"):
        if not getattr(service, field):
            yield required(path / field, f"service {field} is required")
    for text in names.port_number(service.port if service.port is not None else 443):
        yield invalid(path / "port", service.port, f"port is not valid: {text}")
    if service.path is not None:
        yield from (invalid(path / "path", service.path, text) for text in _path_faults(service.path))


def _path_faults(path: str) -> Iterator[str]:
    if path in ("", "/"):
        return
    if not path.startswith("/"):
        yield "must start with a '/'"
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield f"segment[{index}] may not be empty"
        yield from (f"segment[{index}]: {fault}" for fault in (names.subdomain(step) if step else ()))


def operation_rule(
    rule: admissionregistration.RuleWithOperations | admissionregistration.NamedRuleWithOperations, path: Path
) -> Errors:
    if not rule.operations:
        yield required(path / "operations")
    for index, operation in enumerate(rule.operations):
        yield from one_of(operation, _OPERATIONS, path / "operations" / index)
    for field in ("apiGroups", "apiVersions", "resources"):
        values: Sequence[str] = getattr(rule, field)
        if not values:
            yield required(path / field)
        elif "*" in values and len(values) > 1 and field != "resources":
            yield invalid(path / field, list(values), "if '*' is present, must not specify other " + _WORDS[field])
    yield from one_of(rule.scope, _SCOPES, path / "scope")


_WORDS = {"apiGroups": "API groups", "apiVersions": "API versions"}


# Reviews

AccessReview = (
    authorization.SubjectAccessReview | authorization.LocalSubjectAccessReview | authorization.SelfSubjectAccessReview
)


def create_access_review(review: AccessReview, context: Context) -> Errors:
    spec = review.spec
    if spec.resourceAttributes is not None and spec.nonResourceAttributes is not None:
        text = "cannot be specified in combination with resourceAttributes"
        yield invalid(SPEC / "nonResourceAttributes", spec.nonResourceAttributes, text)
    if spec.resourceAttributes is None and spec.nonResourceAttributes is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid(SPEC / "resourceAttributes", None, text)
    if not isinstance(review, authorization.SelfSubjectAccessReview) and not (review.spec.user or review.spec.groups):
        yield invalid(SPEC / "user", review.spec.user, "at least one of user or group must be specified")
    if isinstance(review, authorization.LocalSubjectAccessReview):
        yield from _local_review(review)


def _local_review(review: authorization.LocalSubjectAccessReview) -> Errors:
    attributes = review.spec.resourceAttributes
    if attributes is not None and attributes.namespace != review.metadata.namespace:
        text = "must match metadata.namespace"
        yield invalid(SPEC / "resourceAttributes" / "namespace", attributes.namespace, text)
    if review.spec.nonResourceAttributes is not None:
        text = "disallowed on this kind of request"
        yield forbidden(SPEC / "nonResourceAttributes", text)


def create_rules_review(review: authorization.SelfSubjectRulesReview, context: Context) -> Errors:
    if not review.spec.namespace:
        yield required(SPEC / "namespace", "no namespace on request")


def create_token_review(review: authentication.TokenReview, context: Context) -> Errors:
    if not review.spec.token:
        yield required(SPEC / "token", "token is required for TokenReview in authentication")
