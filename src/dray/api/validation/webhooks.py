"""Validation of admission webhooks, and of how a webhook is reached, also that of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import invalid, required
from dray.api.paths import Path
from dray.api.rules import Errors, named
from dray.api.types import admissionregistration, apiextensions
from dray.api.validation.context import Context
from dray.api.validation.expressions import Expressions, match_conditions, texts

_SERVICE = "io.k8s.api.admissionregistration.v1.ServiceReference"  # like that of apiextensions
_REVIEW_VERSIONS = ("v1", "v1beta1")

AdmissionWebhook = admissionregistration.ValidatingWebhook | admissionregistration.MutatingWebhook


# Roles


# Webhooks


def conditions(
    webhooks: Sequence[AdmissionWebhook], old: Sequence[AdmissionWebhook] | None, path: Path, context: Context
) -> Errors:
    """Yield errors in match conditions. Conditions are not checked again if an update does not change them.

    `old` are the replaced webhooks, or None for a new object.
    """
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
    """Yield errors in the review versions that a webhook supports: invalid or duplicate ones.

    At least one must be v1 or v1beta1.
    """
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
        yield from checked(_SERVICE, config.service, path / "service")


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


def url_path(text: str, path: Path) -> Errors:
    """Yield errors in the path at which a service is called."""
    yield from (invalid(path, text, fault) for fault in _path_faults(text))


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
