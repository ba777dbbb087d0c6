"""MutatingAdmissionWebhook: others may change what is about to be stored, such as a chart's defaults and sidecars.

Webhooks are called one after the other, by the name of their configuration and in its order; each sees what those before
it made. One that asks for it (`reinvocationPolicy: IfNeeded`) is called once more if another changed the object after
it, and so are policies. What a webhook changes is checked and defaulted like what a client writes. A deletion has nothing
to change: webhooks may refuse it, and a patch is an error. The options of a connection (exec and so on), a Scale, and
what is posted to a subresource can be changed.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable

import msgspec

from dray.api.errors import ApiError, InternalError
from dray.api.gates import FeatureGates
from dray.api.types.admissionregistration import MutatingWebhook, MutatingWebhookConfiguration
from dray.api.wire import Tree, tree_of
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.admission.matching import presented
from dray.apiserver.admission.mutating import changeable, finished, patched, put, seen
from dray.apiserver.admission.mutating_policies import MutatingPolicies
from dray.apiserver.admission.webhook_client import ReviewAnswer, WebhookCallFailed
from dray.apiserver.admission.webhooks import AdmissionWebhook, WebhookCall, Webhooks
from dray.apiserver.read.reader import Reader
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver
from dray.apiserver.write.patches.effort import Effort
from dray.apiserver.write.patches.json_patch import json_patch
from dray.apiserver.write.patches.rejection import PatchRejected

_decode = msgspec.json.Decoder(list[Tree]).decode


class MutatingWebhooks(Admission):
    """Asks the mutating webhooks, and does as they say."""

    name = "MutatingAdmissionWebhook"
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")
    configured_by = (MutatingWebhookConfiguration,)

    def __init__(
        self,
        reader: Reader,
        authorizer: Union,
        gates: FeatureGates,
        resolver: RequestResolver | None = None,
        policies: MutatingPolicies | None = None,
    ) -> None:
        self._policies = policies  # which have acted before, and some of which want to act again
        self._webhooks = Webhooks(MutatingWebhookConfiguration, reader, authorizer, resolver)
        self._gates = gates

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        if not self._webhooks.configured():
            return None
        if request.operation == "DELETE":
            about = self._webhooks.about(request)
            return self._ask_about_deletion(about, request) if about else None
        tree = changeable(request)
        return self._ask_all(request, tree) if tree is not None else None

    async def _ask_about_deletion(self, about: list[tuple[AdmissionWebhook, str]], request: AdmissionRequest) -> None:
        for call in await self._webhooks.concerned(about, request):
            answer = await self._webhooks.ask(call, request)
            if answer is not None and answer.patch:
                text = f'admission webhook "{call.webhook.name}" attempted to modify the object, which is not supported for this operation'
                raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}])

    async def _ask_all(self, request: AdmissionRequest, tree: Tree) -> None:
        before = tree_of(tree)
        again: list[str] = []  # webhooks that want another look
        changed_since: set[str] = set()
        for call in await self._calls(request, tree):
            if await self._ask(call, request, tree):
                changed_since.update(again)
            again += _wanting(call)
        policies = self._policies if request.operation != "CONNECT" else None
        if policies is not None and tree != before and await policies.reinvoke(request, tree):
            changed_since.update(again)
        for call in await self._calls(request, tree) if changed_since else ():
            if call.webhook.name in changed_since:
                await self._ask(call, request, tree)

    async def _calls(self, request: AdmissionRequest, tree: Tree) -> list[WebhookCall]:
        about = seen(request, tree)
        return await self._webhooks.concerned(self._webhooks.about(about), about)

    async def _ask(self, call: WebhookCall, request: AdmissionRequest, tree: Tree) -> bool:
        """Whether the webhook has changed the tree."""
        about = seen(request, tree)
        answer = await self._webhooks.ask(call, about)
        request.warnings[:] = about.warnings
        if answer is None or not answer.patch:
            return False
        try:
            operations = _operations(answer)
        except WebhookCallFailed as error:
            self._webhooks.failed(call.webhook, str(error), request)
            return False
        try:
            changed = await patched(
                self._webhooks.resolver,
                request,
                lambda effort: self._patched(request, call, operations, about, effort),
            )
        except ApiError as error:  # whatever the failure policy is: the webhook did answer
            why = error.cause if isinstance(error, PatchRejected) else error
            text = f'admission webhook "{call.webhook.name}": its patch cannot be applied: {why}'
            raise InternalError(f"Internal error occurred: {text}", causes=[{"message": text}]) from error
        return put(tree, changed)

    def _patched(
        self,
        request: AdmissionRequest,
        call: WebhookCall,
        operations: list[Tree],
        about: AdmissionRequest,
        effort: Effort,
    ) -> Tree:
        assert about.object is not None
        changed = json_patch(presented(about, call.version, about.object), operations, effort)
        return finished(request, call.version, changed, self._gates)

    async def aclose(self) -> None:
        await self._webhooks.aclose()


def _operations(answer: ReviewAnswer) -> list[Tree]:
    """Decode the patch of an answer. Raises WebhookCallFailed if it is no list of operations."""
    if answer.patchType != "JSONPatch":
        raise WebhookCallFailed(f"patchType must be JSONPatch, not {answer.patchType!r}")
    try:
        return _decode(base64.b64decode(answer.patch or "", validate=True))
    except (ValueError, RecursionError) as error:  # no base64, no JSON, or nested too deeply
        raise WebhookCallFailed(f"received undecodable patch in webhook response: {error}") from error


def _wanting(call: WebhookCall) -> list[str]:
    webhook = call.webhook
    wants = isinstance(webhook, MutatingWebhook) and webhook.reinvocationPolicy == "IfNeeded"
    return [webhook.name] if wants else []
