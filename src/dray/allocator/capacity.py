"""How much of a device's capacity a request consumes, according to the device's request policy.

A capacity that the request does not name is consumed by its default amount, or completely if it has none. A requested
amount is rounded up to one that the policy allows. A device cannot serve a request that its policy or its size does
not allow. Left out: how much of the capacity other claims hold (`packing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from dray.api.quantity import MAX_INT64, Quantity, QuantityFormat
from dray.api.reasons.devices import InputCode
from dray.api.types.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

Consumption = dict[str, Quantity]


class CapacityFault(NamedTuple):
    """A capacity for which the consumed amount is invalid. This is an error, not merely a device that cannot serve the
    request.
    """

    capacity: str
    code: InputCode


_NANO = 9  # decimal digits; a quantity has no smaller part


def nanos(quantity: Quantity) -> int:
    """Convert a quantity to an integer in units of 10^-9. Anything smaller than such a unit is cut off."""
    return int(quantity.unscaled * 10 ** (quantity.scale + _NANO))


def from_nanos(amount: int) -> Quantity:
    """Convert an integer in units of 10^-9 to a quantity, in binary notation if it is a multiple of 1Ki."""
    whole, rest = divmod(amount, 10**_NANO)
    if rest:
        return Quantity(amount, -_NANO)
    return Quantity(whole, 0, QuantityFormat.BINARY_SI if whole and whole % 1024 == 0 else QuantityFormat.DECIMAL_SI)


@lru_cache(maxsize=4096)
def amount(text: str) -> int:
    """Convert the text of a quantity to an integer in units of 10^-9. Cached, because most texts repeat.

    Raises as `Quantity.parse` does if the text is no quantity.
    """
    return nanos(Quantity.parse(text))


def consumption(device: Device, requests: Mapping[str, str], fractional: bool) -> Consumption | CapacityFault | None:
    """Return the amount of each capacity that a request consumes, or None if the device cannot serve the request.

    The device cannot serve the request if it lacks a requested capacity, or if an amount exceeds the capacity or
    violates its policy. A capacity that is not requested is consumed by its default, or completely if it has none.
    Returns a CapacityFault if an amount is negative or its range cannot represent it. `fractional` is the gate
    DRAFractionalCapacityRange, which allows the steps of a range to be fractions.
    """
    if any(name not in device.capacity for name in requests):
        return None
    found: Consumption = {}
    for name, capacity in device.capacity.items():
        amount = _consumed(capacity, requests.get(name), fractional)
        if amount is None:
            return CapacityFault(name, InputCode.CAPACITY_BEYOND_RANGE)
        if amount.sign < 0:
            return CapacityFault(name, InputCode.CAPACITY_NEGATIVE)
        found[name] = amount
    allowed = (
        amount <= Quantity.parse(capacity.value) and not _violates(amount, capacity.requestPolicy, fractional)
        for amount, capacity in zip(found.values(), device.capacity.values(), strict=True)
    )
    return found if all(allowed) else None


def _consumed(capacity: DeviceCapacity, requested: str | None, fractional: bool) -> Quantity | None:
    """Return the amount of one capacity that a request consumes, or None if the range cannot represent it.

    Without a request (`requested` is None), that is the default of the policy, or the whole capacity. A requested
    amount is rounded up to what the policy allows, and stays as it is if the policy allows nothing larger.
    """
    policy = capacity.requestPolicy
    if requested is None:
        return Quantity.parse(policy.default if policy is not None and policy.default is not None else capacity.value)
    wanted = Quantity.parse(requested)
    if policy is not None and policy.validRange is not None and policy.validRange.min is not None:
        return _stepped(wanted, policy.validRange, fractional)
    if policy is not None:
        return next((value for value in map(Quantity.parse, policy.validValues) if wanted <= value), wanted)
    return wanted


def _stepped(wanted: Quantity, valid: CapacityRequestPolicyRange, fractional: bool) -> Quantity | None:
    """Round an amount up to the next step of a range, counted from its minimum.

    An amount below the minimum becomes the minimum. Without a step, only this happens. Returns None if the result
    does not fit into 64 bits, or if the amount is finer than the digits in which the range is computed allow
    (`_exact`).
    """
    least = Quantity.parse(valid.min or "0")
    if wanted <= least:
        return least
    if valid.step is None:
        return wanted
    step = Quantity.parse(valid.step)
    digits = _digits(valid, fractional)
    size, start = step.scaled(-digits), least.scaled(-digits)
    units = start + -(-(wanted.scaled(-digits) - start) // size) * size
    if not _exact(wanted, digits) or units > MAX_INT64:
        return None
    if digits and units % 10**digits == 0:
        units, digits = units // 10**digits, 0
    return Quantity(units, -digits, step.format)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, fractional: bool) -> bool:
    """Return whether a policy forbids an amount. It never forbids its default, and None forbids nothing.

    With `fractional`, the steps of a range may be fractions.
    """
    if policy is None or (policy.default is not None and amount == Quantity.parse(policy.default)):
        return False
    if policy.validRange is not None:
        return _outside(amount, policy.validRange, fractional)
    return bool(policy.validValues) and amount not in map(Quantity.parse, policy.validValues)


def largest(capacity: DeviceCapacity) -> Quantity | None:
    """Return the largest amount that a policy allows for one request, or None if it has no maximum.

    There is no maximum without a policy, with a range without `max`, and with a policy without values.
    """
    policy = capacity.requestPolicy
    if policy is None:
        return None
    if policy.validRange is not None:
        return Quantity.parse(policy.validRange.max) if policy.validRange.max is not None else None
    return max(map(Quantity.parse, policy.validValues), default=None)


def largest_within(capacity: DeviceCapacity, left: Quantity) -> Quantity:
    """Return the largest amount that the policy allows within what is left, or zero if it allows none."""
    policy = capacity.requestPolicy
    if policy is None:
        return left
    if policy.validRange is None:
        return max(
            (value for value in map(Quantity.parse, policy.validValues) if value <= left), default=_nothing(left)
        )
    valid = policy.validRange
    most = min(left, Quantity.parse(valid.max)) if valid.max is not None else left
    least = Quantity.parse(valid.min or "0")
    if most < least:
        return _nothing(left)
    if valid.step is None:
        return most
    step = nanos(Quantity.parse(valid.step))
    return from_nanos(nanos(least) + (nanos(most) - nanos(least)) // step * step)


def _nothing(left: Quantity) -> Quantity:
    return left - left


def _outside(amount: Quantity, valid: CapacityRequestPolicyRange, fractional: bool) -> bool:
    if valid.max is not None and amount > Quantity.parse(valid.max):
        return True
    if valid.step is None:
        return False
    digits = _digits(valid, fractional)
    if not _exact(amount, digits):
        return True
    beyond = amount.scaled(-digits) - Quantity.parse(valid.min or "0").scaled(-digits)
    return beyond % Quantity.parse(valid.step).scaled(-digits) != 0


def _digits(valid: CapacityRequestPolicyRange, fractional: bool) -> int:
    """Return the number of decimal digits in which a range is computed: 3 if fractions are allowed and exact, else 0."""
    parts = [Quantity.parse(part) for part in (valid.min, valid.max, valid.step) if part is not None]
    return 3 if fractional and all(_exact(part, 3) for part in parts) else 0


def _exact(quantity: Quantity, digits: int) -> bool:
    """Return whether a quantity in units of 10^-digits fits into 64 bits, without rounding if digits is not 0.

    With 0 digits, a fraction is allowed.
    """
    amount, unit = nanos(quantity), 10 ** (_NANO - digits)
    return amount <= MAX_INT64 * unit and (not digits or amount % unit == 0)
