"""Life of a definition: its names are accepted or conflict, it is established, and its objects are deleted before it.

Conditions are computed by pure functions and written as status. The loop handles one definition at a time, in the
order of changes, and retries after conflicts. Several servers on one store reach the same result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api.calls import Caller, DeleteCall, PatchCall
from dray.api.errors import ApiError
from dray.api.kinds.custom_resource_definition import approval
from dray.api.resources import RESOURCES, Resource
from dray.api.types.apiextensions import (
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
)
from dray.api.users import MASTERS, User
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
    """Return the names that a definition can have, and the condition NamesAccepted.

    A name in use elsewhere keeps its earlier accepted value. The condition's status is "False" if there is a
    conflict; its reason and message are about the last one found.
    """
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
    """Return two sets that other resources of the group use: plural, singular and short names; kinds and list kinds."""
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
    """Return the condition Established: true once the names are accepted, and it stays true.

    `accepted` is the condition NamesAccepted.
    """
    before = next((c for c in definition.status.conditions or () if c.type == "Established"), None)
    if before is not None and before.status == "True":
        return before
    if accepted.status != "True":
        text = "not all names are accepted"
        return Condition(type="Established", status="False", reason="NotAccepted", message=text)
    text = "the initial names have been accepted"
    return Condition(type="Established", status="True", reason="InitialNamesAccepted", message=text)


def reviewed(definition: CustomResourceDefinition) -> list[Condition]:
    """Return the approval condition of a definition in a Kubernetes group; empty for other groups."""
    found = approval(definition)
    if found is None:
        return []
    reason, text = found
    status = "True" if reason == "ApprovedAnnotation" else "False"
    return [Condition(type="KubernetesAPIApprovalPolicyConformant", status=status, reason=reason, message=text)]


def merged(old: Iterable[Condition], new: Iterable[Condition], time: str) -> list[Condition]:
    """Return conditions updated with new ones. A condition keeps its transition time if its status is unchanged."""
    found = {condition.type: condition for condition in old}
    for condition in new:
        before = found.get(condition.type)
        same = before is not None and before.status == condition.status
        when = before.lastTransitionTime if same and before is not None else time
        found[condition.type] = msgspec.structs.replace(condition, lastTransitionTime=when)
    return list(found.values())


# The loop


class Establishing:
    """Updates the status of definitions, and completes their deletion."""

    def __init__(self, api: ApiServer, definitions: Definitions) -> None:
        self._api = api
        self._definitions = definitions
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to process all definitions and their changes."""
        self._definitions.listen(self._waiting.put_nowait)
        for definition in self._all():
            self._waiting.put_nowait(definition.metadata.name)
        self._task = asyncio.create_task(self._run(), name="definitions")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Process changed definitions one by one, and again later after errors."""
        while True:
            name = await self._waiting.get()
            await asyncio.sleep(0)  # lets other work run, because a write in the same process may never wait
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
        """Process one definition. Returns whether it must be processed again later."""
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
        """Process all definitions with conflicting names again, because names may be free now."""
        for other in self._all():
            if any(c.type == "NamesAccepted" and c.status == "False" for c in other.status.conditions or ()):
                self._waiting.put_nowait(other.metadata.name)

    async def _write(
        self,
        definition: CustomResourceDefinition,
        conditions: list[Condition],
        names: CustomResourceDefinitionNames | None = None,
    ) -> None:
        """Update the status of a definition: conditions, and accepted names if given."""
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
        """Delete all objects of a deleted definition, then remove its finalizer. Returns whether objects remain.

        Does nothing and returns False if the definition no longer has the finalizer.
        """
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
        """Set the condition Terminating of a definition, unless it is already set like this."""
        condition = Condition(type="Terminating", status=status, reason=reason, message=message)
        conditions = merged(definition.status.conditions or (), [condition], now())
        if tuple(conditions) != tuple(definition.status.conditions or ()):
            await self._write(definition, conditions)

    async def _delete_objects(self, resource: Resource) -> int:
        """Delete all objects of a resource that are not being deleted yet.

        Returns how many still exist because of finalizers. Raises ApiError if a deletion fails, unless the object is
        already gone.
        """
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
