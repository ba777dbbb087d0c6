"""What becomes of a definition: names accepted or in conflict, established, and its objects deleted before it goes.

Conditions are computed purely and written as a status; the loop handles one definition at a time, in the order of their
changes, and tries again when somebody else was faster. Several servers on one store come to the same result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api.calls import Caller, DeleteCall, PatchCall
from dray.api.errors import ApiError
from dray.api.resources import RESOURCES, Resource
from dray.api.types.apiextensions import (
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
)
from dray.api.users import MASTERS, User
from dray.api.validation.definitions import approval
from dray.apiserver.core import ApiServer
from dray.apiserver.custom.definitions import DEFINITIONS, Definitions
from dray.apiserver.write.definitions import CLEANUP
from dray.apiserver.write.identity import now

USER = User("system:apiserver", groups=(MASTERS,))
_CALLER = Caller(USER)
_RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)

Condition = CustomResourceDefinitionCondition


# Names


def conflicts(
    definition: CustomResourceDefinition, others: Iterable[CustomResourceDefinition]
) -> tuple[CustomResourceDefinitionNames, Condition]:
    """The names that a definition can have, and the condition that tells whether it has all it wants."""
    wanted, accepted = definition.spec.names, definition.status.acceptedNames
    taken, kinds = _taken(definition, others)
    reason = message = ""
    changes: dict[str, Any] = {}
    for field, why in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
        text = getattr(wanted, field)
        if text in taken:
            reason, message = why, _in_use(text)
        else:
            changes[field] = text
    clash = [name for name in wanted.shortNames if name in taken]
    if clash:
        reason, message = "ShortNamesConflict", _in_use(clash[0])
    else:
        changes["shortNames"] = wanted.shortNames
    for field, why in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        text = getattr(wanted, field)
        if text in kinds:
            reason, message = why, _in_use(text)
        else:
            changes[field] = text
    names = msgspec.structs.replace(accepted, categories=wanted.categories, **changes)
    if reason:
        return names, Condition(type="NamesAccepted", status="False", reason=reason, message=message)
    return names, Condition(type="NamesAccepted", status="True", reason="NoConflicts", message="no conflicts found")


def _in_use(name: str) -> str:
    return f'"{name}" is already in use'


def _taken(
    definition: CustomResourceDefinition, others: Iterable[CustomResourceDefinition]
) -> tuple[set[str], set[str]]:
    """What other resources of the group are called: resources and short names, and kinds."""
    group = definition.spec.group
    names: set[str] = set()
    kinds: set[str] = set()
    for row in RESOURCES:
        if row.group == group:
            names |= {row.plural, row.singular, *row.short_names}
            kinds |= {row.kind, row.list_kind}
    for other in others:
        if other.spec.group == group and other.metadata.name != definition.metadata.name:
            accepted = other.status.acceptedNames
            names |= {accepted.plural, accepted.singular, *accepted.shortNames}
            kinds |= {accepted.kind, accepted.listKind}
    return names - {""}, kinds - {""}


def established(definition: CustomResourceDefinition, accepted: Condition) -> Condition:
    """Whether objects can be served: once the names are accepted, for good."""
    before = next((c for c in definition.status.conditions or () if c.type == "Established"), None)
    if before is not None and before.status == "True":
        return before
    if accepted.status != "True":
        text = "not all names are accepted"
        return Condition(type="Established", status="False", reason="NotAccepted", message=text)
    text = "the initial names have been accepted"
    return Condition(type="Established", status="True", reason="InitialNamesAccepted", message=text)


def reviewed(definition: CustomResourceDefinition) -> list[Condition]:
    """Whether a definition in a group of Kubernetes itself is approved; of others nobody asks."""
    found = approval(definition)
    if found is None:
        return []
    reason, text = found
    status = "True" if reason == "ApprovedAnnotation" else "False"
    return [Condition(type="KubernetesAPIApprovalPolicyConformant", status=status, reason=reason, message=text)]


def merged(old: Iterable[Condition], new: Iterable[Condition], time: str) -> list[Condition]:
    """Conditions as they are now; one whose status stays keeps its time."""
    found = {condition.type: condition for condition in old}
    for condition in new:
        before = found.get(condition.type)
        same = before is not None and before.status == condition.status
        when = before.lastTransitionTime if same and before is not None else time
        found[condition.type] = msgspec.structs.replace(condition, lastTransitionTime=when)
    return list(found.values())


# The loop


class Establishing:
    """Brings definitions to where they should be."""

    def __init__(self, api: ApiServer, definitions: Definitions) -> None:
        self._api = api
        self._definitions = definitions
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._definitions.listen(self._waiting.put_nowait)
        for definition in self._all():
            self._waiting.put_nowait(definition.metadata.name)
        self._task = asyncio.create_task(self._run(), name="definitions")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            name = await self._waiting.get()
            await asyncio.sleep(0)  # a write in the process need not wait for anything: others have their turns here
            try:
                again = await self._handle(name)
            except ApiError as error:
                again = error.code != 404
            except Exception:
                _log.exception("definition %s", name)
                again = True
            if again:
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._waiting.put_nowait, name)

    async def _handle(self, name: str) -> bool:
        """Returns whether the definition must be looked at again."""
        found = self._api.storage.get(DEFINITIONS, "", name)
        if not isinstance(found, CustomResourceDefinition):
            await self._retry_conflicting()
            return False
        if found.metadata.deletionTimestamp is not None:
            return await self._finish(found)
        names, accepted = conflicts(found, self._all())
        told = [accepted, established(found, accepted), *reviewed(found)]
        conditions = merged(found.status.conditions or (), told, now())
        if names != found.status.acceptedNames or tuple(conditions) != tuple(found.status.conditions or ()):
            await self._definitions.prepare(name)
            await self._write(found, conditions, names)
        return False

    async def _retry_conflicting(self) -> None:
        """Names may be free again."""
        for other in self._all():
            if any(c.type == "NamesAccepted" and c.status == "False" for c in other.status.conditions or ()):
                self._waiting.put_nowait(other.metadata.name)

    async def _write(
        self,
        definition: CustomResourceDefinition,
        conditions: list[Condition],
        names: CustomResourceDefinitionNames | None = None,
    ) -> None:
        status: dict[str, Any] = {"conditions": msgspec.to_builtins(conditions)}
        if names is not None:
            tree = msgspec.to_builtins(names)
            status["acceptedNames"] = {field: tree.get(field) for field in names.__struct_fields__}
        body = {"metadata": {"resourceVersion": definition.metadata.resourceVersion}, "status": status}
        await self._patch(definition, body, "status")

    async def _patch(self, definition: CustomResourceDefinition, body: dict[str, Any], subresource: str) -> None:
        name = definition.metadata.name
        await self._api.answer(_CALLER, PatchCall(DEFINITIONS, "", name, subresource, patch=body))

    def _all(self) -> list[CustomResourceDefinition]:
        found = self._api.storage.list(DEFINITIONS)
        return [definition for definition in found if isinstance(definition, CustomResourceDefinition)]

    # Deletion

    async def _finish(self, definition: CustomResourceDefinition) -> bool:
        """Delete what there is of a kind, then let its definition go."""
        if CLEANUP not in definition.metadata.finalizers:
            return False
        resource = self._definitions.find(definition.spec.group, definition.spec.names.plural)
        left = await self._delete_objects(resource) if resource is not None else 0
        if left:
            await self._terminate(
                definition, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
            )
            return True
        await self._terminate(definition, "False", "InstanceDeletionCompleted", "removed all instances")
        current = self._api.storage.get(DEFINITIONS, "", definition.metadata.name)
        if isinstance(current, CustomResourceDefinition):
            kept = [finalizer for finalizer in current.metadata.finalizers if finalizer != CLEANUP]
            metadata = {"resourceVersion": current.metadata.resourceVersion, "finalizers": kept}
            await self._patch(current, {"metadata": metadata}, "")
        return False

    async def _terminate(self, definition: CustomResourceDefinition, status: str, reason: str, message: str) -> None:
        condition = Condition(type="Terminating", status=status, reason=reason, message=message)
        conditions = merged(definition.status.conditions or (), [condition], now())
        if tuple(conditions) != tuple(definition.status.conditions or ()):
            await self._write(definition, conditions)

    async def _delete_objects(self, resource: Resource) -> int:
        """Delete all objects; returns how many are still held by finalizers."""
        for obj in list(self._api.storage.list(resource)):
            await asyncio.sleep(0)
            metadata = obj.metadata  # type: ignore[attr-defined]  # every stored object has it
            if metadata.deletionTimestamp is not None:
                continue
            try:
                await self._api.answer(_CALLER, DeleteCall(resource, metadata.namespace, metadata.name))
            except ApiError as error:
                if error.code != 404:
                    raise
        return sum(1 for _ in self._api.storage.list(resource))
