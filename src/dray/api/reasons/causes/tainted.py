"""Devices match, and have taints that the request does not tolerate."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import RequestCause
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say

_NAMED = 3  # taints that a sentence lists


class TolerateDevice(Suggestion, frozen=True, tag="help-tolerate-device"):
    """Tolerations in a request."""

    TEXT = "tolerate {taints} in {where}"

    where: str
    taints: tuple[str, ...]


class RemoveRule(Suggestion, frozen=True, tag="help-remove-rule"):
    """DeviceTaintRules that go."""

    TEXT = "delete DeviceTaintRule {rules}"

    rules: tuple[str, ...]


class RemoveTaint(Suggestion, frozen=True, tag="help-remove-taint"):
    """Devices that are published without their taints."""

    TEXT = "remove the taint {taints} from pool {pool}"

    pool: str
    taints: tuple[str, ...]


class DevicesTainted(RequestCause, frozen=True, tag="Tainted"):
    """Devices match the request, but too few without taints that it does not tolerate.

    asked: the request
    matching: how many devices match
    tainted: how many of them have such taints
    taints: the taints
    taint_rules: the DeviceTaintRules that add them
    """

    TEXT = "{tainted} of the {matching} that match are tainted: {names}{rules}"
    HELPS = (TolerateDevice, RemoveRule, RemoveTaint)

    matching: int
    tainted: int
    taints: tuple[str, ...]
    taint_rules: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        names, rules = taints_named(self.taints, self.taint_rules)
        return {"names": names, "rules": rules}


def taints_named(taints: tuple[str, ...], rules: tuple[str, ...]) -> tuple[str, str]:
    """The first taints, and which rules add them."""
    told = say(CausePhrase.BY_RULES, names=", ".join(rules)) if rules else ""
    return ", ".join(taints[:_NAMED]), told
