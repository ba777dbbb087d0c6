"""What all causes have in common: a code, fields of their own, the templates of their text, and what may help.

The docstring of a cause says what is the case, then one line for each field (`name: meaning`). The page `docs/causes.md`
and the JSON schema are made of it.
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
    """Why something waits, or that it does not. Each cause is a struct of its own, told apart by its code."""

    TEXT: ClassVar[str] = ""
    PHRASES: ClassVar[Mapping[str, str]] = {}
    HELPS: ClassVar[tuple[type[Suggestion], ...]] = ()

    @property
    def code(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def root(self) -> Cause:
        """What is behind it all: the cause itself, but for one that only points to another."""
        return self

    @property
    def text(self) -> str:
        """The cause in words, with what is asked for before it."""
        return self.detail

    @property
    def detail(self) -> str:
        """The cause in words, without what is asked for."""
        return self.say(self.phrase(), **asdict(self) | self.words())

    def say(self, phrase: str = "", /, **subjects: object) -> str:
        """One of the templates of this cause with its subjects."""
        return say(f"{self.code}.{phrase}" if phrase else self.code, **subjects)

    def phrase(self) -> str:
        """The name of another template that reads better with these values; empty for the usual one."""
        return ""

    def words(self) -> dict[str, Any]:
        """What the template gets beside the fields."""
        return {}


if TYPE_CHECKING:
    AnyCause = Cause  # at run time the union of all causes, which the registry puts here


class RequestCause(Cause, frozen=True):
    """A cause that is about the devices of one request, which are told before it."""

    NEED: ClassVar[CausePhrase] = CausePhrase.NEEDS
    JOINED: ClassVar[CausePhrase] = CausePhrase.NEED_AND_CAUSE

    asked: RequestedDevices

    @property
    def text(self) -> str:
        need = say(self.NEED, asked=asked(self.asked), devices=devices(self.asked.needed))
        return say(self.JOINED, need=need, cause=self.detail)


def similar_name(name: str) -> str:
    """`, did you mean gpu?`, where a name is alike."""
    return say(CausePhrase.MEANT, meant=name) if name else ""


def named(names: tuple[str, ...]) -> str:
    """Some names, and how many more there are."""
    return listed(names)
