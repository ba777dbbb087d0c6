"""MutatingAdmissionWebhook: others may change what is about to be stored, such as a chart's defaults and sidecars.

Webhooks are called one after the other, by the name of their configuration and in its order; each sees what those before
it made. One that asks for it (`reinvocationPolicy: IfNeeded`) is called once more if another changed the object after
it, and so are policies. What a webhook changes is checked and defaulted like what a client writes. A deletion has nothing
to change: webhooks may refuse it, and a patch is an error. The options of a connection (exec and so on), a Scale, and
what is posted to a subresource can be changed.
"""

from __future__ import annotations

import base64
from functools import partial

import msgspec

from dray.api.errors import ApiError, InternalError
from dray.api.types.admissionregistration import MutatingWebhook, MutatingWebhookConfiguration
from dray.api.wire import Tree
from dray.apiserver.admission import AdmissionRequest, MaybeAwaitable
from dray.apiserver.admission.judges import JudgingContext
from dray.apiserver.admission.mutating import act_all, change, changeable, finished, present
from dray.apiserver.admission.mutating_policies import MutatingPolicies
from dray.apiserver.admission.webhook_client import ReviewAnswer, WebhookCallFailed, WebhookClient
from dray.apiserver.admission.webhooks import WebhookJudge, Webhooks
from dray.apiserver.write.patches.effort import Effort
from dray.apiserver.write.patches.json_patch import json_patch
from dray.apiserver.write.patches.rejection import PatchRejected

_decode = msgspec.json.Decoder(list[Tree]).decode


class MutatingWebhookJudge(WebhookJudge):
    """A webhook that may change objects."""

    def __init__(self, webhook: MutatingWebhook, context: JudgingContext, client: WebhookClient) -> None:
        super().__init__(webhook, context, client)
        self.is_asked_again = webhook.reinvocationPolicy == "IfNeeded"

    async def act(self, request: AdmissionRequest) -> bool | None:
        """Ask the webhook and do as it says; whether that changed the tree. None: the request does not concern it."""
        about = present(request)
        version = await self.version(about)
        if version is None:
            return None
        answer = await self.ask(about, version)
        if answer is None or not answer.patch:
            return False
        if request.tree is None:
            text = f'admission webhook "{self.webhook.name}" attempted to modify the object, which is not supported for this operation'
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}])
        try:
            operations = _operations(answer)
        except WebhookCallFailed as error:
            self.failed(str(error), request)
            return False
        try:
            return await change(self.context, request, version, partial(self._changed, version, operations))
        except ApiError as error:  # whatever the failure policy is: the webhook did answer
            why = error.cause if isinstance(error, PatchRejected) else error
            text = f'admission webhook "{self.webhook.name}": its patch cannot be applied: {why}'
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}]) from error

    def _changed(
        self, version: str, operations: list[Tree], about: AdmissionRequest, now: Tree, effort: Effort
    ) -> Tree:
        return finished(about, version, json_patch(now, operations, effort), self.context.gates)


class MutatingWebhooks(Webhooks[MutatingWebhookJudge]):
    """Asks the mutating webhooks, and does as they say."""

    name = "MutatingAdmissionWebhook"
    configured_by = (MutatingWebhookConfiguration,)

    def __init__(self, context: JudgingContext, policies: MutatingPolicies | None = None) -> None:
        """`policies` have acted before, and some of them want to act again after a change."""
        super().__init__(context, MutatingWebhookJudge)
        self._policies = policies

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        about, policies = self.judges.about(request), self._policies
        if not about or (changeable(request) is None and request.operation != "DELETE"):
            return None
        if policies is None or request.operation not in policies.operations:
            return act_all(about, request)
        return act_all(about, request, partial(policies.reinvoke, request))


def _operations(answer: ReviewAnswer) -> list[Tree]:
    """Decode the patch of an answer. Raises WebhookCallFailed if it is no list of operations."""
    if answer.patchType != "JSONPatch":
        raise WebhookCallFailed(f"patchType must be JSONPatch, not {answer.patchType!r}")
    try:
        return _decode(base64.b64decode(answer.patch or "", validate=True))
    except (ValueError, RecursionError) as error:  # no base64, no JSON, or nested too deeply
        raise WebhookCallFailed(f"received undecodable patch in webhook response: {error}") from error
