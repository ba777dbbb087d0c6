"""Cause: devices match, but have taints that the request does not tolerate."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import RequestCause
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say

_NAMED = 3  # maximum number of taints listed in a sentence


class TolerateDevice(Suggestion, frozen=True, tag="help-tolerate-device"):
    """Add tolerations to a request."""

    TEXT = "tolerate {taints} in {where}"

    where: str
    taints: tuple[str, ...]


class RemoveRule(Suggestion, frozen=True, tag="help-remove-rule"):
    """Delete DeviceTaintRules."""

    TEXT = "delete DeviceTaintRule {rules}"

    rules: tuple[str, ...]


class RemoveTaint(Suggestion, frozen=True, tag="help-remove-taint"):
    """Publish the devices of a pool without their taints."""

    TEXT = "remove the taint {taints} from pool {pool}"

    pool: str
    taints: tuple[str, ...]


class DevicesTainted(RequestCause, frozen=True, tag="Tainted"):
    """Devices match the request, but too few of them are free of taints that the request does not tolerate.

    asked: the request
    matching: number of matching devices
    tainted: number of matching devices with such taints
    taints: the taints
    taint_rules: the DeviceTaintRules that add the taints
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
    """Return two texts: the first taints, separated by commas, and the phrase that names the rules that add them."""
    told = say(CausePhrase.BY_RULES, names=", ".join(rules)) if rules else ""
    return ", ".join(taints[:_NAMED]), told
