"""Validation of RBAC roles, bindings, admission webhooks and access reviews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from dray.api import names
from dray.api.errors import forbidden, invalid, required
from dray.api.paths import SPEC, Path
from dray.api.types import admissionregistration, apiextensions, authorization, rbac
from dray.api.validation.context import Context
from dray.api.validation.expressions import Expressions, match_conditions, texts
from dray.api.validation.lists import Errors, named, one_of, unchanged
from dray.api.written import as_go

RBAC_GROUP = "rbac.authorization.k8s.io"
MOST_PERMISSIONS = 10_000  # maximum per role: verbs times groups times resources times names
_REVIEW_VERSIONS = ("v1", "v1beta1")

AdmissionWebhook = admissionregistration.ValidatingWebhook | admissionregistration.MutatingWebhook
AnyRoleBinding = rbac.RoleBinding | rbac.ClusterRoleBinding


# Roles


def no_urls(rule: rbac.PolicyRule, path: Path) -> Errors:
    """Yield an error if a rule of a namespaced role has nonResourceURLs."""
    if rule.nonResourceURLs:
        text = "namespaced rules cannot apply to non-resource URLs"
        yield invalid(path / "nonResourceURLs", rule.nonResourceURLs, text)


def policy_rule(rule: rbac.PolicyRule, path: Path) -> Errors:
    """Yield errors if a role's rule lacks API groups or resources, or combines resources with nonResourceURLs."""
    if rule.nonResourceURLs:
        if rule.apiGroups or rule.resources or rule.resourceNames:
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(path / "nonResourceURLs", rule.nonResourceURLs, text)
        return
    if not rule.apiGroups:
        yield required(path / "apiGroups", "resource rules must supply at least one api group")
    if not rule.resources:
        yield required(path / "resources", "resource rules must supply at least one resource")


def permissions(rules: Sequence[rbac.PolicyRule], path: Path) -> Errors:
    """Yield an error if the rules of a role grant more than MOST_PERMISSIONS permissions."""
    if (count := sum(map(_permissions, rules))) > MOST_PERMISSIONS:
        text = f"the rules come to {count} permissions (verbs times groups times resources times names)"
        yield forbidden(path, f"{text}, at most {MOST_PERMISSIONS} are allowed; split the role or use '*'")


def _permissions(rule: rbac.PolicyRule) -> int:
    objects = len(rule.apiGroups) * len(rule.resources) * max(1, len(rule.resourceNames))
    return len(rule.verbs) * (objects + len(rule.nonResourceURLs))


def role_ref(reference: rbac.RoleRef, path: Path, kinds: tuple[str, ...] = ("Role", "ClusterRole")) -> Errors:
    yield from one_of(reference.apiGroup, (RBAC_GROUP,), path / "apiGroup")
    yield from one_of(reference.kind, kinds, path / "kind")
    if reference.name:
        yield from named(reference.name, path / "name", names.path_segment)


def cluster_role_ref(reference: rbac.RoleRef, path: Path) -> Errors:
    return role_ref(reference, path, ("ClusterRole",))


def account_namespace(subject: rbac.Subject, path: Path) -> Errors:
    """Yield an error if a subject is a service account without namespace."""
    if subject.kind == "ServiceAccount" and not subject.namespace:
        yield required(path / "namespace")


def same_role(binding: AnyRoleBinding, old: AnyRoleBinding, context: Context) -> Errors:
    """Yield an error if an update changes the roleRef of a binding."""
    yield from unchanged(binding.roleRef, old.roleRef, Path("roleRef"), as_go(binding.roleRef))


# Webhooks


def conditions(
    webhooks: Sequence[AdmissionWebhook], old: Sequence[AdmissionWebhook] | None, path: Path, context: Context
) -> Errors:
    """Yield errors in match conditions. Conditions are not checked again if an update does not change them."""
    before = [webhook.matchConditions for webhook in old or ()]
    if old is not None and [webhook.matchConditions for webhook in webhooks] == before:
        return
    stored = texts(condition for conditions in before for condition in conditions)
    for index, webhook in enumerate(webhooks):
        if webhook.matchConditions:  # without conditions, skip creating a checker, which takes time
            expressions = Expressions(context.policy_expressions(False, False), {"condition": stored})
            yield from match_conditions(webhook.matchConditions, path / index / "matchConditions", expressions)


def webhook_name(name: str, path: Path) -> Errors:
    """Yield an error if the name is not a domain of at least three segments."""
    if faults := names.subdomain(name):
        yield invalid(path, name, ",".join(faults))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def review_versions(versions: Sequence[str], path: Path) -> Errors:
    """Yield errors in the review versions that a webhook supports."""
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(path / index, version, "duplicate version")
        else:
            yield from named(version, path / index, names.label_1035)
        seen.add(version)
    if not set(versions) & set(_REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def resources(items: Sequence[str], path: Path) -> Errors:
    """Yield errors in the resources of a webhook or policy; `*` and `*/*` must be the only entry of their type."""
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        name, slash, sub = item.partition("/")
        if not item:
            yield required(path / index)
        if not slash:
            continue
        for wide in ((name, "*"), ("*", sub)):
            if wide in seen:
                yield invalid(path / index, item, f"if '{'/'.join(wide)}' is present, must not specify {item}")
        seen.add((name, sub))
    if "*/*" in items and len(items) > 1:
        yield invalid(path, items, "if '*/*' is present, must not specify other resources")
    if "*" in items and any(item and item != "*" and "/" not in item for item in items):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, items, text)


def webhook_client(
    config: admissionregistration.WebhookClientConfig | apiextensions.WebhookClientConfig, path: Path
) -> Errors:
    """Yield errors unless exactly one of a valid url or a valid service is set."""
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


# Reviews

AccessReview = (
    authorization.SubjectAccessReview | authorization.LocalSubjectAccessReview | authorization.SelfSubjectAccessReview
)


def access_review(review: AccessReview, _: Path | None) -> Errors:
    """Yield errors in the spec of an access review: it needs exactly one kind of attributes, and a user or group."""
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
