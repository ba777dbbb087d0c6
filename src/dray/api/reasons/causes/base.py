"""Base classes of all causes: a code, fields, text templates and possible suggestions.

The docstring of a cause describes the situation, followed by one line per field (`name: meaning`). The page
`docs/causes.md` and the JSON schema are generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import asdict

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import asked, listed
from dray.api.reasons.requested import RequestedDevices
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import devices, say


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="code"):
    """Why an object waits, or that it does not wait. Each cause is a subclass, identified by its code."""

    TEXT: ClassVar[str] = ""
    PHRASES: ClassVar[Mapping[str, str]] = {}
    HELPS: ClassVar[tuple[type[Suggestion], ...]] = ()

    @property
    def code(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def root(self) -> Cause:
        """The underlying cause: the cause itself, except for causes that only point to another cause."""
        return self

    @property
    def text(self) -> str:
        """The cause as text, including what is requested."""
        return self.detail

    @property
    def detail(self) -> str:
        """The cause as text, without what is requested."""
        return self.say(self.phrase(), **asdict(self) | self.words())

    def say(self, phrase: str = "", /, **subjects: object) -> str:
        """Return one of the cause's templates filled with values; the main template if `phrase` is empty."""
        return say(f"{self.code}.{phrase}" if phrase else self.code, **subjects)

    def phrase(self) -> str:
        """Return the name of the template that fits the current field values; empty for the main template."""
        return ""

    def words(self) -> dict[str, Any]:
        """Return values for the template in addition to the fields."""
        return {}


if TYPE_CHECKING:
    AnyCause = Cause  # at run time, the registry replaces this by the union of all causes


class RequestCause(Cause, frozen=True):
    """Base class of causes about the devices of one request; the text starts with the request."""

    NEED: ClassVar[CausePhrase] = CausePhrase.NEEDS
    JOINED: ClassVar[CausePhrase] = CausePhrase.NEED_AND_CAUSE

    asked: RequestedDevices

    @property
    def text(self) -> str:
        need = say(self.NEED, asked=asked(self.asked), devices=devices(self.asked.needed))
        return say(self.JOINED, need=need, cause=self.detail)


def similar_name(name: str) -> str:
    """Return `, did you mean gpu?`, or an empty string if `name` is empty."""
    return say(CausePhrase.MEANT, meant=name) if name else ""


def named(names: tuple[str, ...]) -> str:
    """Return the first names and the number of further names."""
    return listed(names)
