"""MutatingAdmissionWebhook: webhooks may change objects before they are stored, for example to inject sidecars.

Webhooks are called one after the other, sorted by the name of their configuration, then in its order; each sees the
changes of the previous ones. A webhook with `reinvocationPolicy: IfNeeded` is called again if the object changes
after its turn, and so are policies. A changed object is checked and defaulted like the body of a client. A webhook
may deny a DELETE, but a patch for it is an error. Connection options (exec and so on), a Scale and posts to a
subresource can be changed.
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
        """Call the webhook and apply its patch.

        Returns whether the tree changed, or None if the webhook does not match. Raises InternalError if the request
        has no object to patch or the patch cannot be applied, whatever the failure policy is.
        """
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
        except ApiError as error:  # regardless of the failure policy, because the webhook did answer
            why = error.cause if isinstance(error, PatchRejected) else error
            text = f'admission webhook "{self.webhook.name}": its patch cannot be applied: {why}'
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}]) from error

    def _changed(
        self, version: str, operations: list[Tree], about: AdmissionRequest, now: Tree, effort: Effort
    ) -> Tree:
        """Return the object in the stored version after the webhook's patch.

        `now` is the object in `version`. Raises an ApiError if the patch fails or the result is invalid.
        """
        return finished(about, version, json_patch(now, operations, effort), self.context.gates)


class MutatingWebhooks(Webhooks[MutatingWebhookJudge]):
    """Calls the mutating webhooks and applies their patches."""

    name = "MutatingAdmissionWebhook"
    configured_by = (MutatingWebhookConfiguration,)

    def __init__(self, context: JudgingContext, policies: MutatingPolicies | None = None) -> None:
        """`policies` have acted before and may need reinvocation after a change."""
        super().__init__(context, MutatingWebhookJudge)
        self._policies = policies

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Let the matching webhooks act.

        Returns the work as an awaitable, or None if no webhook may match, or if the request has nothing to change and
        is not a DELETE.
        """
        about, policies = self.judges.about(request), self._policies
        if not about or (changeable(request) is None and request.operation != "DELETE"):
            return None
        if policies is None or request.operation not in policies.operations:
            return act_all(about, request)
        return act_all(about, request, partial(policies.reinvoke, request))


def _operations(answer: ReviewAnswer) -> list[Tree]:
    """Return the decoded patch of an answer. Raises WebhookCallFailed if it is not a list of operations."""
    if answer.patchType != "JSONPatch":
        raise WebhookCallFailed(f"patchType must be JSONPatch, not {answer.patchType!r}")
    try:
        return _decode(base64.b64decode(answer.patch or "", validate=True))
    except (ValueError, RecursionError) as error:  # not base64, not JSON, or nested too deeply
        raise WebhookCallFailed(f"received undecodable patch in webhook response: {error}") from error
