"""Webhooks: others may have a say, such as a driver about its opaque parameters.

All validating webhooks that a request concerns are asked at once; one denial is enough. A webhook that cannot be asked denies or
not, as its failure policy says. Requests about webhook configurations themselves are not sent, so that a broken webhook
can always be removed. Whatever is about expressions is imported when a webhook has match conditions. Left out: what
mutating webhooks change (`mutating_webhooks`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.api.errors import ApiError, BadRequest, Conflict, Forbidden, InternalError, NotFound, TooManyRequests
from dray.api.needs import Known
from dray.api.resources import BY_TYPE
from dray.api.types.admissionregistration import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.admission.matching import described, matched_version, presented, selected
from dray.apiserver.admission.mutating_policies import EXEMPT
from dray.apiserver.admission.webhook_client import (
    API_VERSION,
    ReviewAnswer,
    ReviewStatus,
    WebhookCallFailed,
    WebhookClient,
)
from dray.apiserver.read.reader import Reader, many
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver, resolver_of_its_own

if TYPE_CHECKING:
    from dray.apiserver.admission.conditions import Conditions

DEFAULT_SECONDS = 10
LONGEST_WARNING = 256
NEVER_SENT = (*EXEMPT, MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
Webhook = ValidatingWebhook | MutatingWebhook


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


class AdmissionWebhook(NamedTuple):
    """A webhook, and its conditions if it has any."""

    webhook: Webhook
    conditions: Conditions | None


class WebhookCall(NamedTuple):
    """A webhook that a request concerns, and the version of the object that it wants to see."""

    webhook: Webhook
    version: str


class Webhooks:
    """The webhooks that configurations of one type name."""

    def __init__(
        self,
        configuration: type[ValidatingWebhookConfiguration] | type[MutatingWebhookConfiguration],
        reader: Reader,
        authorizer: Union,
        resolver: RequestResolver | None = None,
    ) -> None:
        self._configuration = configuration
        self.resolver = resolver or resolver_of_its_own()
        self._reader = reader
        self._authorizer = authorizer
        self._client = WebhookClient(reader)
        self._last_change = reader.last_change(BY_TYPE[configuration])
        self._seen = -1
        self._hooks: tuple[AdmissionWebhook, ...] = ()

    def about(self, request: AdmissionRequest) -> list[tuple[AdmissionWebhook, str]]:
        """The webhooks that rules and selectors say a request is about, in their order, and the versions they want."""
        if not self.configured() or request.concerns(*NEVER_SENT):
            return []
        found = []
        for hook in self._hooks:
            version = matched_version(hook.webhook.rules, hook.webhook.matchPolicy, request)
            if version is not None and selected(hook.webhook, request, self._reader):
                found.append((hook, version))
        return found

    async def concerned(
        self, about: list[tuple[AdmissionWebhook, str]], request: AdmissionRequest
    ) -> list[WebhookCall]:
        """Those of the webhooks whose conditions hold, too."""
        found = []
        for hook, version in about:
            if hook.conditions is None or await self._hold(hook.webhook, hook.conditions, request, version):
                found.append(WebhookCall(hook.webhook, version))
        return found

    async def aclose(self) -> None:
        await self._client.aclose()

    def configured(self) -> bool:
        seen = self._last_change.revision
        if seen != self._seen:
            self._seen = seen
            found: list[ValidatingWebhookConfiguration | MutatingWebhookConfiguration] = [
                *many(self._reader, self._configuration)
            ]
            found.sort(key=lambda one: one.metadata.name)
            self._hooks = tuple(_hook(webhook) for one in found for webhook in one.webhooks)
        return bool(self._hooks)

    async def _hold(self, webhook: Webhook, conditions: Conditions, request: AdmissionRequest, version: str) -> bool:
        """Whether a webhook's conditions hold; a failure refuses the request, or lets the webhook be left out."""
        from dray.apiserver.admission.conditions import ConditionsFailed, held
        from dray.apiserver.admission.policy_view import PolicyView

        known: Known = {}

        def hold() -> bool:
            return held(conditions, PolicyView(request, version, self._reader, self._authorizer).read, known)

        try:
            return await self.resolver.run(request.user.name, False, hold)
        except ConditionsFailed as error:
            if webhook.failurePolicy == "Ignore":
                return False
            raise request.forbidden(str(error)) from error

    async def ask(self, call: WebhookCall, request: AdmissionRequest) -> ReviewAnswer | None:
        """What a webhook that lets the request pass says; raises what the request fails with because of it."""
        webhook = call.webhook
        if request.dry_run and webhook.sideEffects not in ("None", "NoneOnDryRun"):
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        seconds = webhook.timeoutSeconds or DEFAULT_SECONDS
        about = await self.resolver.run(request.user.name, False, review, request, call.version)
        try:
            answer = await self._client.call(webhook.clientConfig, about, seconds, request.user.name)
        except WebhookCallFailed as error:
            self.failed(webhook, str(error), request)
            return None
        request.warnings.extend(warning[:LONGEST_WARNING] for warning in answer.warnings or ())
        if not answer.allowed:
            raise _denial(webhook.name, answer)
        return answer

    def failed(self, webhook: Webhook, reason: str, request: AdmissionRequest) -> None:
        """A webhook that cannot be asked, or understood: the request fails, or goes on without it."""
        text = f'failed calling webhook "{webhook.name}": {reason}'
        if webhook.failurePolicy != "Ignore":
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}])
        request.warnings.append(text[:LONGEST_WARNING])


class ValidatingWebhooks(Admission):
    """Asks the validating webhooks."""

    name = "ValidatingAdmissionWebhook"
    configured_by = (ValidatingWebhookConfiguration,)
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(self, reader: Reader, authorizer: Union, resolver: RequestResolver | None = None) -> None:
        self._webhooks = Webhooks(ValidatingWebhookConfiguration, reader, authorizer, resolver)

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        about = self._webhooks.about(request)
        return self._ask_all(about, request) if about else None

    async def _ask_all(self, about: list[tuple[AdmissionWebhook, str]], request: AdmissionRequest) -> None:
        asked = [self._webhooks.ask(call, request) for call in await self._webhooks.concerned(about, request)]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def aclose(self) -> None:
        await self._webhooks.aclose()


def _hook(webhook: Webhook) -> AdmissionWebhook:
    if not webhook.matchConditions:
        return AdmissionWebhook(webhook, None)
    from dray.apiserver.admission.conditions import Conditions
    from dray.cel.admission import Compiler

    return AdmissionWebhook(webhook, Conditions(webhook.matchConditions, Compiler(params=False, composed=False)))


def review(request: AdmissionRequest, version: str) -> dict[str, Any]:
    """The AdmissionReview that tells a webhook about a request."""
    body = {"uid": str(uuid.uuid4()), **described(request, version)}
    for name, state in (("object", request.object), ("oldObject", request.old)):
        if state is not None:
            body[name] = presented(request, version, state)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": body}


def _denial(name: str, answer: ReviewAnswer) -> ApiError:
    status = answer.status or ReviewStatus()
    denied = f'admission webhook "{name}" denied the request'
    explanation = status.message or status.reason
    text = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    return DENIALS.get(status.code, InternalError if status.code >= 500 else BadRequest)(text)
