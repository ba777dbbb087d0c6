"""What would help, as data: changes of objects that a program can make.

Each kind of suggestion is a struct with a code, fields of its own and the template of its text; it stands beside the cause
that it helps against (`dray.api.reasons.causes`). A suggestion is printed only after a trial in memory has shown that it
helps. Left out: finding suggestions and trying them (`dray.inspect.suggesting`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import asdict

from dray.api.reasons.wording import say


class ChangeVerb(StrEnum):
    """What is done to an object. REPLACE deletes it and creates it again, since most of a pod or claim cannot change.

    EVICT lets a pod go, and waits until the one that its controller makes in its place has a node.
    """

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    REPLACE = "replace"
    EVICT = "evict"


class SuggestedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of one object. `body` is the whole object, or of a PATCH the JSON merge patch.

    With `force`, a pod is deleted without the consent of its node, which is gone.
    """

    verb: ChangeVerb
    apiVersion: str
    kind: str
    name: str
    namespace: str = ""
    body: dict[str, Any] = {}
    force: bool = False


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="code"):
    """One thing to do. The JSON has the struct's code as `code` and its text as `text`."""

    TEXT: ClassVar[str] = ""
    PHRASES: ClassVar[Mapping[str, str]] = {}

    changes: tuple[SuggestedChange, ...] = ()

    @property
    def code(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def text(self) -> str:
        """What to do, in words."""
        phrase = self.phrase()
        return say(f"{self.code}.{phrase}" if phrase else self.code, **asdict(self) | self.words())

    def phrase(self) -> str:
        """The name of another template that reads better with these values; empty for the usual one."""
        return ""

    def words(self) -> dict[str, str]:
        """What the template gets beside the fields; lists of names are written out."""
        listed = {name: getattr(self, name) for name in self.__struct_fields__ if name != "changes"}
        return {name: ", ".join(value) for name, value in listed.items() if isinstance(value, tuple)}


if TYPE_CHECKING:
    AnySuggestion = Suggestion  # at run time the union of all suggestions, which the registry of causes puts here
