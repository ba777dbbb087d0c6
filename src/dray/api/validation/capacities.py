"""Validation of the request policy of a capacity: a list of valid values, or a range with steps."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from dray.api.errors import duplicate, forbidden, invalid, required, too_many
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.rules import Errors
from dray.api.types import resource

OPTIONS_MAX = 10
LARGEST = 2**63 - 1
_BOTH = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def request_policy(capacity: resource.DeviceCapacity, path: Path) -> Errors:
    """Yield errors in the request policy of a capacity; the capacity must have a policy."""
    policy = capacity.requestPolicy
    assert policy is not None  # only called for capacities that have one
    whole = Quantity.parse(capacity.value)
    if policy.validValues and policy.validRange is not None:
        yield forbidden(path, _BOTH)
    elif policy.validValues:
        if policy.default is None:
            yield required(path / "default", "required when validValues is defined")
        else:
            yield from _values(policy.validValues, policy.default, whole, path / "validValues")
    elif policy.validRange is not None:
        if policy.default is None:
            yield required(path / "default", "required when validRange is defined")
        else:
            yield from _range(policy.validRange, Quantity.parse(policy.default), whole, path / "validRange")


def _values(options: tuple[str, ...], default: str, whole: Quantity, path: Path) -> Errors:
    amounts = [Quantity.parse(option) for option in options]
    for index, (before, amount) in enumerate(pairwise(amounts), 1):
        if before > amount:
            yield invalid(path / index, str(amount), "values must be sorted in ascending order")
    if len(options) > OPTIONS_MAX:
        yield too_many(path, len(options), OPTIONS_MAX)
        amounts = []  # too many to validate each
    for index, amount in enumerate(amounts):
        if amount > whole:
            yield invalid(path / index, str(amount), f"option is larger than capacity value: {whole}")
    seen: set[Fraction] = set()
    for index, amount in enumerate(amounts):
        if _exact(amount) in seen:
            yield duplicate(path / index, str(amount))
        seen.add(_exact(amount))
    if Quantity.parse(default) not in amounts:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _range(bounds: resource.CapacityRequestPolicyRange, default: Quantity, whole: Quantity, path: Path) -> Errors:
    if bounds.min is None:
        yield required(path / "min", "required when validRange is defined")
        return
    low = Quantity.parse(bounds.min)
    if low > whole:
        yield invalid(path / "min", str(low), f"min is larger than capacity value: {whole}")
    if default < low:
        yield invalid(path / "default", str(default), f"default is less than min: {low}")
    high = Quantity.parse(bounds.max) if bounds.max is not None else None
    if high is not None:
        if low > high:
            yield invalid(path / "max", str(low), f"min is larger than max: {high}")
        if high > whole:
            yield invalid(path / "max", str(high), f"max is larger than capacity value: {whole}")
        if default > high:
            yield invalid(path / "default", str(default), f"default is more than max: {high}")
    if bounds.step is not None:
        amounts = {"default": default, "min": low, "max": high, "step": Quantity.parse(bounds.step)}
        yield from _steps({name: amount for name, amount in amounts.items() if amount is not None}, whole, path)


def _steps(amounts: Mapping[str, Quantity], whole: Quantity, path: Path) -> Errors:
    """Yield errors if an amount in the range is not a whole number of steps above the minimum."""
    low, step = amounts["min"], amounts["step"]
    if step.sign <= 0:
        yield invalid(path / "step", str(step), "must be greater than zero")
        return
    first = low + step
    if first > whole:
        yield invalid(path / "step", str(step), f"one step {first} is larger than capacity value: {whole}")
    outside = [error for name, amount in amounts.items() for error in _countable(amount, path / name)]
    yield from outside
    if outside:
        return
    for name in ("default", "max"):
        amount = amounts.get(name)
        if amount is not None and (_exact(amount) - _exact(low)) % _exact(step):
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(path / "step", str(amount), text)


def _countable(amount: Quantity, path: Path) -> Errors:
    """Yield an error if an amount is negative or does not fit a 64-bit integer."""
    if amount.sign < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    elif _exact(amount) > LARGEST:
        yield invalid(path, str(amount), f"must not be larger than {LARGEST}")


def _exact(amount: Quantity) -> Fraction:
    return amount.unscaled * Fraction(10) ** amount.scale
