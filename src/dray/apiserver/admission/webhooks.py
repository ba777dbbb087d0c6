"""Admission webhooks: external services decide on requests, such as a driver that validates its opaque parameters.

All matching validating webhooks are called concurrently; one denial suffices. The failure policy decides whether a
failed call denies the request. Requests for webhook configurations are never sent, so that a broken webhook can
always be removed. Changes by mutating webhooks are in `mutating_webhooks`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from dray.api.errors import ApiError, BadRequest, Conflict, Forbidden, InternalError, NotFound, TooManyRequests
from dray.api.types.admissionregistration import (
    MatchResources,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    NamedRuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from dray.apiserver.admission import Admission, AdmissionRequest, MaybeAwaitable
from dray.apiserver.admission.conditions import Conditions, ConditionsFailed
from dray.apiserver.admission.judges import EXEMPT, Configured, JudgingContext, Unprocessable
from dray.apiserver.admission.matching import Matcher, described, presented
from dray.apiserver.admission.webhook_client import (
    API_VERSION,
    ReviewAnswer,
    ReviewStatus,
    WebhookCallFailed,
    WebhookClient,
)
from dray.apiserver.read.reader import many
from dray.cel.admission import Compiler

DEFAULT_SECONDS = 10
LONGEST_WARNING = 256
NEVER_SENT = (*EXEMPT, MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
AnyWebhook = ValidatingWebhook | MutatingWebhook


DENIALS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Unprocessable,
    429: TooManyRequests,
}


class WebhookJudge:
    """A webhook, ready to be called."""

    def __init__(self, webhook: AnyWebhook, context: JudgingContext, client: WebhookClient) -> None:
        self.webhook = webhook
        self.context = context
        self._client = client
        self._conditions = Conditions(webhook.matchConditions, Compiler(params=False, composed=False))
        rules = tuple(NamedRuleWithOperations(**msgspec.structs.asdict(rule)) for rule in webhook.rules)
        selectors = webhook.namespaceSelector, webhook.objectSelector
        self.matcher = Matcher(MatchResources((), webhook.matchPolicy, *selectors, rules))

    async def version(self, request: AdmissionRequest) -> str | None:
        """Return the version in which the webhook matches the request, or None if it does not match.

        If match conditions fail to evaluate, the failure policy decides: raise Forbidden, or return None.
        """
        version, context = self.matcher.version(request, self.context.reader), self.context
        if version is None or not self.webhook.matchConditions:
            return version
        try:
            holds = await context.hold(self._conditions, request, lambda: context.view(request, version).read)
        except ConditionsFailed as error:
            if self.webhook.failurePolicy == "Ignore":
                return None
            raise request.forbidden(str(error)) from error
        return version if holds else None

    async def ask(self, request: AdmissionRequest, version: str) -> ReviewAnswer | None:
        """Call the webhook. Returns its answer, or None if the call failed and the failure policy is Ignore.

        Adds the answer's warnings to the request. Raises an ApiError if the webhook denies the request, if the call
        failed and the failure policy is Fail, or if the webhook does not support a requested dry run.
        """
        webhook = self.webhook
        if request.dry_run and webhook.sideEffects not in ("None", "NoneOnDryRun"):
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        seconds = webhook.timeoutSeconds or DEFAULT_SECONDS
        about = await self.context.resolver.run(request.user.name, False, review, request, version)
        try:
            answer = await self._client.call(webhook.clientConfig, about, seconds, request.user.name)
        except WebhookCallFailed as error:
            self.failed(str(error), request)
            return None
        request.warnings.extend(warning[:LONGEST_WARNING] for warning in answer.warnings or ())
        if not answer.allowed:
            raise _denial(webhook.name, answer)
        return answer

    def failed(self, reason: str, request: AdmissionRequest) -> None:
        """Handle a failed call: raise InternalError, or add a warning if the failure policy is Ignore."""
        text = f'failed calling webhook "{self.webhook.name}": {reason}'
        if self.webhook.failurePolicy != "Ignore":
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}])
        request.warnings.append(text[:LONGEST_WARNING])


W = TypeVar("W", bound=WebhookJudge)


class Webhooks(Admission, Generic[W]):
    """Plugin for all webhooks in configurations of one kind, sorted by configuration name."""

    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(self, context: JudgingContext, make: Callable[[Any, JudgingContext, WebhookClient], W]) -> None:
        self._client = WebhookClient(context.reader)
        (kind,) = self.configured_by

        def judges() -> Iterator[W]:
            found: Iterable[Any] = many(context.reader, kind)
            for configuration in sorted(found, key=lambda one: one.metadata.name):
                yield from (make(webhook, context, self._client) for webhook in configuration.webhooks)

        self.judges = Configured(context.reader, (kind,), judges, NEVER_SENT)

    async def aclose(self) -> None:
        await self._client.aclose()


class ValidatingWebhooks(Webhooks[WebhookJudge]):
    """Calls the validating webhooks."""

    name = "ValidatingAdmissionWebhook"
    configured_by = (ValidatingWebhookConfiguration,)

    def __init__(self, context: JudgingContext) -> None:
        super().__init__(context, WebhookJudge)

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Call the matching webhooks. Returns the work as an awaitable, or None if no webhook may match."""
        about = self.judges.about(request)
        return self._ask_all(about, request) if about else None

    async def _ask_all(self, about: Sequence[WebhookJudge], request: AdmissionRequest) -> None:
        """Call webhooks concurrently and raise the first denial or failure, in the order of the webhooks.

        Waits for all answers first.
        """
        versions = [(judge, await judge.version(request)) for judge in about]
        asked = [judge.ask(request, version) for judge, version in versions if version is not None]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def review(request: AdmissionRequest, version: str) -> dict[str, Any]:
    """Return the AdmissionReview of a request."""
    body = {"uid": str(uuid.uuid4()), **described(request, version)}
    for name, state in (("object", request.object), ("oldObject", request.old)):
        if state is not None:
            body[name] = presented(request, version, state)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": body}


def _denial(name: str, answer: ReviewAnswer) -> ApiError:
    """Return the ApiError for a webhook's denial, by its status code.

    An unknown code gives BadRequest, or InternalError from 500 on.
    """
    status = answer.status or ReviewStatus()
    denied = f'admission webhook "{name}" denied the request'
    explanation = status.message or status.reason
    text = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    return DENIALS.get(status.code, InternalError if status.code >= 500 else BadRequest)(text)
