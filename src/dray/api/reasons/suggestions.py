"""Suggestions as data: changes of objects that would resolve a cause and that a program can apply.

Each kind of suggestion is a struct with a code, fields and a text template, in the module of the cause that it
resolves (`dray.api.reasons.causes`). A suggestion is printed only after a simulation has shown that it helps.
`dray.inspect.suggesting` finds and simulates suggestions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import asdict

from dray.api.reasons.wording import say


class ChangeVerb(StrEnum):
    """Operation on an object. REPLACE deletes and recreates the object, because most fields of a pod or claim are
    immutable.

    EVICT evicts a pod and waits until the pod that its controller creates instead has a node.
    """

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    REPLACE = "replace"
    EVICT = "evict"


class SuggestedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of one object. `body` is the whole object, or the JSON merge patch of a PATCH.

    With `force`, a pod is deleted without waiting for its node, which is gone.
    """

    verb: ChangeVerb
    apiVersion: str
    kind: str
    name: str
    namespace: str = ""
    body: dict[str, Any] = {}
    force: bool = False


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="code"):
    """One suggested action. Its JSON form has the code as `code` and the text as `text`."""

    TEXT: ClassVar[str] = ""
    PHRASES: ClassVar[Mapping[str, str]] = {}

    changes: tuple[SuggestedChange, ...] = ()

    @property
    def code(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def text(self) -> str:
        """The suggested action as text."""
        phrase = self.phrase()
        return say(f"{self.code}.{phrase}" if phrase else self.code, **asdict(self) | self.words())

    def phrase(self) -> str:
        """Return the name of the template that fits the current field values; empty for the main template."""
        return ""

    def words(self) -> dict[str, str]:
        """Return values for the template in addition to the fields; lists of names are joined with commas."""
        listed = {name: getattr(self, name) for name in self.__struct_fields__ if name != "changes"}
        return {name: ", ".join(value) for name, value in listed.items() if isinstance(value, tuple)}


if TYPE_CHECKING:
    AnySuggestion = Suggestion  # at run time, the registry of causes replaces this by the union of all suggestions
