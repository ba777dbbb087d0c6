"""ValidatingAdmissionWebhook: others may have a say, such as a driver about its opaque parameters.

All webhooks that a request concerns are asked at once; one denial is enough. A webhook that cannot be asked denies or
not, as its failure policy says. Requests about webhook configurations themselves are not sent, so that a broken webhook
can always be removed. Left out: mutating webhooks, and match conditions, which are stored and not evaluated: the webhook
is called for every request that its rules match, and whoever writes them is warned.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from dray.api.conversion import from_stored
from dray.api.errors import ApiError, BadRequest, Conflict, Forbidden, InternalError, NotFound, TooManyRequests
from dray.api.resources import Resource
from dray.api.selectors import label_selector
from dray.api.types.admissionregistration import (
    RuleWithOperations,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from dray.api.types.core import Namespace
from dray.api.types.meta import LabelSelector, ObjectMeta
from dray.api.wire import Wire
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.admission.webhook_client import API_VERSION, CallFailed, ReviewAnswer, ReviewStatus, WebhookClient
from dray.apiserver.reader import Reader, many, one, revision

DEFAULT_SECONDS = 10
LONGEST_WARNING = 256
NEVER_SENT = (ValidatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)
OPTIONS_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Unprocessable(ApiError):
    """A denial that the webhook gave code 422; the general Invalid is about fields that the server knows."""

    code, reason = 422, "Invalid"


DENIALS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Unprocessable,
    429: TooManyRequests,
}


class Call(NamedTuple):
    """A webhook that a request concerns, and the version of the object that it wants to see."""

    webhook: ValidatingWebhook
    version: str


class ValidatingWebhooks(Admission):
    """Asks the webhooks that the cluster's configurations name."""

    name = "ValidatingAdmissionWebhook"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._client = WebhookClient()
        self._seen = -1
        self._webhooks: tuple[ValidatingWebhook, ...] = ()

    async def validate(self, request: AdmissionRequest) -> None:
        if request.concerns(*NEVER_SENT):
            _warn_about_conditions(request)
            return
        if not self._configured():
            return
        calls = [call for webhook in self._webhooks if (call := self._concerned(webhook, request))]
        if not calls:
            return
        outcomes = await asyncio.gather(*(self._ask(call, request) for call in calls))
        for error in outcomes:
            if error is not None:
                raise error

    async def aclose(self) -> None:
        await self._client.aclose()

    def _configured(self) -> bool:
        seen = revision(self._reader, ValidatingWebhookConfiguration)
        if seen != self._seen:
            self._seen = seen
            configurations = many(self._reader, ValidatingWebhookConfiguration)
            self._webhooks = tuple(webhook for found in configurations for webhook in found.webhooks)
        return bool(self._webhooks)

    def _concerned(self, webhook: ValidatingWebhook, request: AdmissionRequest) -> Call | None:
        versions = [request.version or request.resource.stored]
        if webhook.matchPolicy != "Exact":
            versions += [version for version in request.resource.versions if version not in versions]
        for version in versions:
            if any(rule_matches(rule, request, version) for rule in webhook.rules):
                selected = self._namespace_selected(webhook, request) and _object_selected(webhook, request)
                return Call(webhook, version) if selected else None
        return None

    def _namespace_selected(self, webhook: ValidatingWebhook, request: AdmissionRequest) -> bool:
        """The namespace's labels decide; objects outside of namespaces are never left out by them."""
        if _selects_everything(webhook.namespaceSelector):
            return True
        if request.concerns(Namespace):
            namespace = cast("Namespace | None", request.object or request.old)
        elif request.namespace:
            namespace = one(self._reader, Namespace, "", request.namespace)
        else:
            return True
        return namespace is not None and label_selector(webhook.namespaceSelector).matches(namespace.metadata.labels)

    async def _ask(self, call: Call, request: AdmissionRequest) -> ApiError | None:
        """The error that the request fails with because of this webhook, if it does."""
        webhook = call.webhook
        if request.dry_run and webhook.sideEffects not in ("None", "NoneOnDryRun"):
            return BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        seconds = webhook.timeoutSeconds or DEFAULT_SECONDS
        try:
            answer = await self._client.call(webhook.clientConfig, review(request, call.version), seconds)
        except CallFailed as error:
            text = f'failed calling webhook "{webhook.name}": {error}'
            if webhook.failurePolicy == "Ignore":
                request.warnings.append(text[:LONGEST_WARNING])
                return None
            return InternalError(f"Internal error occurred: {text}", causes=[{"message": text}])
        request.warnings.extend(warning[:LONGEST_WARNING] for warning in answer.warnings or ())
        return None if answer.allowed else _denial(webhook.name, answer)


def rule_matches(rule: RuleWithOperations, request: AdmissionRequest, version: str) -> bool:
    """Whether a rule is about this request, seen in a version of its resource."""
    return (
        _listed(rule.operations, request.operation)
        and _listed(rule.apiGroups, request.resource.group)
        and _listed(rule.apiVersions, version)
        and _in_scope(rule.scope, request.resource)
        and any(_resource_matches(pattern, request) for pattern in rule.resources)
    )


def review(request: AdmissionRequest, version: str) -> dict[str, Any]:
    """The AdmissionReview that tells a webhook about a request."""
    resource = request.resource
    asked = request.version or resource.stored
    body = {
        "uid": str(uuid.uuid4()),
        "kind": _kind(resource, version),
        "resource": _named(resource, version),
        "subResource": request.subresource,
        "requestKind": _kind(resource, asked),
        "requestResource": _named(resource, asked),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": request.user.info(),
        "object": _tree(resource, version, request.object),
        "oldObject": _tree(resource, version, request.old),
        "dryRun": request.dry_run,
        "options": {**request.options, "apiVersion": "meta.k8s.io/v1", "kind": OPTIONS_KINDS.get(request.operation)},
    }
    present = {key: value for key, value in body.items() if value not in ("", None)}
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": present}


def _listed(values: tuple[str, ...], value: str) -> bool:
    return "*" in values or value in values


def _in_scope(scope: str | None, resource: Resource) -> bool:
    return scope in (None, "", "*") or (scope == "Namespaced") == resource.namespaced


def _resource_matches(pattern: str, request: AdmissionRequest) -> bool:
    name, slash, subresource = pattern.partition("/")
    if name not in ("*", request.resource.plural):
        return False
    if not slash:
        return not request.subresource
    return subresource in ("*", request.subresource)


def _selects_everything(selector: LabelSelector | None) -> bool:
    return selector is None or not (selector.matchLabels or selector.matchExpressions)


def _object_selected(webhook: ValidatingWebhook, request: AdmissionRequest) -> bool:
    """The labels of either state decide, so that nobody escapes by taking a label away."""
    if _selects_everything(webhook.objectSelector):
        return True
    selector = label_selector(webhook.objectSelector)
    return any(selector.matches(_metadata(state).labels) for state in (request.object, request.old) if state)


def _metadata(state: Wire) -> ObjectMeta:
    return cast(ObjectMeta, state.metadata)  # type: ignore[attr-defined]  # every stored kind has metadata


def _kind(resource: Resource, version: str) -> dict[str, str]:
    return {"group": resource.group, "version": version, "kind": resource.kind}


def _named(resource: Resource, version: str) -> dict[str, str]:
    return {"group": resource.group, "version": version, "resource": resource.plural}


def _tree(resource: Resource, version: str, state: Wire | None) -> dict[str, Any] | None:
    return from_stored(resource, version, msgspec.to_builtins(state)) if state is not None else None


def _denial(name: str, answer: ReviewAnswer) -> ApiError:
    status = answer.status or ReviewStatus()
    denied = f'admission webhook "{name}" denied the request'
    explanation = status.message or status.reason
    text = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    return DENIALS.get(status.code, InternalError if status.code >= 500 else BadRequest)(text)


def _warn_about_conditions(request: AdmissionRequest) -> None:
    if isinstance(request.object, ValidatingWebhookConfiguration):
        request.warnings.extend(_conditions_ignored(request.object))


def _conditions_ignored(configuration: ValidatingWebhookConfiguration) -> Iterator[str]:
    for index, webhook in enumerate(configuration.webhooks):
        if webhook.matchConditions:
            yield (
                f"webhooks[{index}].matchConditions: not evaluated by this server; "
                "the webhook is called for every request that its rules match"
            )
