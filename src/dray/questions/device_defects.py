"""Why devices are not to be had although nobody has them, in words: taints with their rules, and how many have what. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.allocations import DeviceId
from dray.api.availability import KEEPS_OUT
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.wording import say
from dray.api.taints import taint_text
from dray.api.types.resource import Device
from dray.inspect.snapshot import Snapshot


def taints_told(snapshot: Snapshot, id_: DeviceId, device: Device) -> tuple[str, ...]:
    """The taints that keep new pods away from a device, each with the rules that add it."""
    rules = snapshot.pools.rules_for(id_) if device.taints else []
    told = []
    for taint in device.taints:
        if taint.effect in KEEPS_OUT:
            of_rules = [
                rule for rule in rules if (rule.spec.taint.key, rule.spec.taint.effect) == (taint.key, taint.effect)
            ]
            names = ", ".join(rule.metadata.name for rule in of_rules)
            told.append(taint_text(taint) + (say(CausePhrase.BY_RULES, names=names) if names else ""))
    return tuple(told)


def counted(whys: Sequence[str], phrase: CausePhrase) -> str:
    """How many devices have something, and what, each once: `2 tainted: fan:NoSchedule`."""
    names = "; ".join(dict.fromkeys(why for why in whys if why))
    return say(phrase, count=len(whys), names=f": {names}" if names else "")
