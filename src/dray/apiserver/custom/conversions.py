"""Conversion webhooks: convert custom objects to the version of a request.

A request is processed in its own version throughout: the object is converted when it is read; changed, validated and
admitted in that version; and converted to the stored version for the commit. Objects are converted in batches,
concurrent requests share one call, and results are cached like other encodings. If a step needs a conversion midway,
that is an `ObjectConversion`, which `convert` provides. A slow webhook delays only requests that need it.
`conversion_review` has the request's format.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import cast

import msgspec
from msgspec.structs import replace

from dray.api import conversion
from dray.api.conversion import ObjectConversion
from dray.api.custom import CustomObject
from dray.api.decode import to_object
from dray.api.resources import Resource
from dray.api.wire import Tree
from dray.apiserver.admission.webhook_client import WebhookCallFailed, WebhookClient
from dray.apiserver.custom.conversion_review import Review
from dray.apiserver.limits import LARGEST_OBJECT, Limits
from dray.apiserver.read.kept import EncodedCache
from dray.apiserver.read.storage import Form, StateKey, Storage, as_bytes, decode, encode, state_key
from dray.apiserver.read.watching import WatchedChange
from dray.apiserver.request import Answer, Request
from dray.store import KeyVersion

ConvertedStates = dict[StateKey, bytes]

_TOGETHER = 100  # objects per call of a webhook
_BYTES = 256 << 10  # approximate bytes per call, so that reading a response is quick
_LARGEST_ANSWER = 2 * LARGEST_OBJECT


class Conversions:
    """Calls the conversion webhooks of definitions."""

    def __init__(self, storage: Storage, limits: Limits | None = None) -> None:
        self._storage = storage
        self._client = WebhookClient(storage)
        self._seconds = (limits or Limits()).conversion_seconds
        self._kept = EncodedCache()
        self._asking: dict[StateKey, asyncio.Task[ConvertedStates]] = {}

    async def aclose(self) -> None:
        """Cancel running calls and close the connections to webhooks."""
        for task in set(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._client.aclose()

    # Reading

    async def answer(self, request: Request, answer: Answer) -> Answer:
        """Return an answer converted to the requested version, or unchanged if the request names no version."""
        if request.version:
            if answer.version is not None and answer.tree is None:
                [answer.version] = await self.states(request.resource, request.version, [answer.version])
            if answer.versions is not None:
                answer.versions = await self.states(request.resource, request.version, answer.versions)
        return answer

    async def changes(
        self, request: Request, batches: AsyncGenerator[list[WatchedChange], None]
    ) -> AsyncGenerator[list[WatchedChange], None]:
        """Yield the batches of a watch in the requested version. Changes without an object are kept as they are."""
        async with aclosing(batches):
            async for batch in batches:
                told = [change.version for change in batch if change.version is not None]
                states = iter(await self.states(request.resource, request.version, told))
                yield [change if change.version is None else replace(change, version=next(states)) for change in batch]

    async def state(self, resource: Resource, state: KeyVersion) -> KeyVersion:
        """Return a state in the version of `resource` as its requests see it. Raises ConversionFailed."""
        return (await self.states(resource, resource.stored, [state]))[0]

    async def states(self, resource: Resource, version: str, states: Sequence[KeyVersion]) -> list[KeyVersion]:
        """Return states in one version, in order, all within the timeout of a webhook. Raises ConversionFailed."""
        form, found = self._storage.form(resource, version), list[KeyVersion]()
        until = asyncio.get_running_loop().time() + self._seconds
        for portion in _portions(states):
            values = await self._values(form, portion, until)
            found += [_as(state, value) for state, value in zip(portion, values, strict=True)]
        return found

    async def _values(self, form: Form, states: Sequence[KeyVersion], until: float) -> list[bytes]:
        """Return the encodings of states, in order.

        Waits for running calls of other requests instead of repeating them. `until` is the deadline by the event
        loop's clock.
        """
        keys = [state_key(form, state) for state in states]
        found = {
            key: value for key, state in zip(keys, states, strict=True) if (value := self._known(form, key, state))
        }
        missing = {key: state for key, state in zip(keys, states, strict=True) if key not in found}
        for task in {self._asking[key] for key in missing if key in self._asking}:
            found |= await asyncio.shield(task)
        missing = {key: state for key, state in missing.items() if key not in found}
        if missing:
            task = asyncio.create_task(self._ask_for(form, missing, until))
            task.add_done_callback(lambda done: self._asked(missing, done))
            self._asking |= dict.fromkeys(missing, task)
            found |= await asyncio.shield(task)
        return [found[key] for key in keys]

    def _known(self, form: Form, key: StateKey, state: KeyVersion) -> bytes | None:
        """Return the encoding of a state that already has the version, or is cached; else None."""
        value, custom = cast(bytes, state.value), form.resource.custom
        is_whole = custom is not None and not custom.fills_on_read
        return value if is_whole and value.startswith(form.head) else self._kept.get(key)

    async def _ask_for(self, form: Form, missing: dict[StateKey, KeyVersion], until: float) -> ConvertedStates:
        """Convert states with the webhook. Returns their encodings by key."""
        trees = [cast(Tree, msgspec.json.decode(cast(bytes, state.value))) for state in missing.values()]
        converted = await self._trees(form.resource, form.version, trees, until)
        return {key: as_bytes(form, tree) for key, tree in zip(missing, converted, strict=True)}

    def _asked(self, missing: dict[StateKey, KeyVersion], task: asyncio.Task[ConvertedStates]) -> None:
        """Remove a finished call from the running ones, and cache its results if it succeeded."""
        for key in missing:
            del self._asking[key]
        if not task.cancelled() and task.exception() is None:
            for key, value in task.result().items():
                self._kept.put(key, value)

    # Writing

    async def stored(self, resource: Resource, obj: CustomObject) -> CustomObject:
        """Return a custom object converted to the stored version. Raises ConversionFailed."""
        assert resource.custom is not None
        tree = await self.tree(resource, resource.custom.stored, msgspec.json.decode(encode(obj)))
        return cast(CustomObject, to_object(resource, tree))

    async def tree(self, resource: Resource, version: str, tree: Tree) -> Tree:
        """Return a tree in another version, or `tree` itself if it already has the version. Raises ConversionFailed."""
        if tree["apiVersion"] == resource.api_version(version):
            return tree
        until = asyncio.get_running_loop().time() + self._seconds
        return (await self._trees(resource, version, [tree], until))[0]

    async def convert(self, need: ObjectConversion) -> bytes:
        """Return the encoded object that a step needs in another version."""
        return encode(await self.tree(need.resource, need.version, need.tree))

    # The call

    async def _trees(self, resource: Resource, version: str, trees: list[Tree], until: float) -> list[Tree]:
        """Return trees in another version, in order. `until` is the deadline by the event loop's clock.

        Trees that already have the version are only pruned and defaulted, in place.
        """
        wanted = resource.api_version(version)
        others = [tree for tree in trees if tree["apiVersion"] != wanted]
        converted = iter(await self._ask(Review(resource, version, others), resource, until) if others else ())
        found = []
        for tree in trees:
            if tree["apiVersion"] == wanted:
                conversion.shape_custom(resource, version, tree)
                found.append(tree)
            else:
                found.append(next(converted))
        return found

    async def _ask(self, review: Review, resource: Resource, until: float) -> list[Tree]:
        """Call the webhook of a definition. Returns the converted objects. Raises ConversionFailed.

        `until` is the deadline by the event loop's clock.
        """
        assert resource.custom is not None
        chosen = resource.custom.definition.spec.conversion
        config = chosen.webhook.clientConfig if chosen is not None and chosen.webhook is not None else None
        if config is None:
            raise review.failed("the definition names no webhook")
        left = max(0.001, until - asyncio.get_running_loop().time())
        try:
            data = await self._client.post(config, review.body(), min(left, self._seconds), _LARGEST_ANSWER)
        except WebhookCallFailed as error:
            raise review.failed(error) from error
        return review.read(data)


def _as(state: KeyVersion, value: bytes) -> KeyVersion:
    return state if value is state.value else KeyVersion(state.key, value, state.revision, state.created, decode)


def _portions(states: Sequence[KeyVersion]) -> Iterator[list[KeyVersion]]:
    """Yield states in batches of at most 100 objects, for one webhook call each.

    A batch also ends with the object that brings it to about 256 KiB.
    """
    portion: list[KeyVersion] = []
    size = 0
    for state in states:
        portion.append(state)
        size += len(state.value or b"")
        if len(portion) >= _TOGETHER or size >= _BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
