"""Kubernetes quantities: exact decimal numbers that remember their format.

A quantity such as `40Gi`, `500m` or `1e3` is compared and added without rounding, and printed in the canonical
form of Kubernetes. The value is an integer times a power of ten and is never expanded, so `1e2000000000` costs
nothing. Kubernetes stores small numbers in 64 bits and others in arbitrary precision, which is visible in two
places (`as_int`, `approximate`); `exact64` records which applies. Unit conversion and rounding for scheduling are
not part of this module.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Self

from dray.api.remembered import remembered

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

NANO = -9
_SIGNIFICANT_DIGITS = 18  # digits that always fit a signed 64-bit integer
_MAX_DIGITS = 4000  # longer numbers are useless and would take quadratic time
_MAX_POWER_OF_FLOAT = 308

_NUMBER = re.compile(r"([+-]?)(0*)([0-9]*)(?:(\.)([0-9]*))?")
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*\Z")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)\Z")

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()}

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a valid quantity; the message is that of Kubernetes."""


class QuantityFormat(Enum):
    """Format in which a quantity was written and is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity:
    """An immutable quantity: `unscaled` times ten to the power of `scale`.

    >>> str(Quantity.parse("0.5")), str(Quantity.parse("1024Mi") + Quantity.parse("1Gi"))
    ('500m', '2Gi')
    >>> Quantity.parse("1k") == Quantity.parse("1e3") < Quantity.parse("1Ki")
    True
    """

    __slots__ = ("_text", "exact64", "format", "scale", "unscaled")

    unscaled: int
    scale: int
    format: QuantityFormat
    exact64: bool
    _text: str | None

    def __init__(
        self,
        unscaled: int,
        scale: int = 0,
        format: QuantityFormat = QuantityFormat.DECIMAL_SI,
        *,
        exact64: bool = True,
        _text: str | None = None,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "unscaled", unscaled)
        set_field(self, "scale", scale)
        set_field(self, "format", format)
        set_field(self, "exact64", exact64 and MIN_INT64 <= unscaled <= MAX_INT64)
        set_field(self, "_text", _text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a quantity is immutable: cannot set {name}")

    @classmethod
    def parse(cls, value: str | int | float) -> Quantity:
        """Parse a quantity; JSON numbers are parsed from their decimal text.

        Raises QuantityError if the text is invalid or the value is neither text nor a number.
        """
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise QuantityError(FORMAT_WRONG)
        if isinstance(value, str):
            return _parse(value)
        return _parse(_decimal_text(value))

    @classmethod
    def from_json(cls, value: str | int | float | None) -> Quantity:
        """Parse a JSON quantity: null is zero, surrounding whitespace is ignored.

        Raises QuantityError if the value is invalid.
        """
        if value is None:
            return ZERO
        return cls.parse(value.strip() if isinstance(value, str) else value)

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = _canonical(self)
            object.__setattr__(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    # Quantities with the same scale are compared quickly, because selectors do it for every device.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.unscaled == other.unscaled if self.scale == other.scale else _compare(self, other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.unscaled < other.unscaled if self.scale == other.scale else _compare(self, other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.unscaled <= other.unscaled if self.scale == other.scale else _compare(self, other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.unscaled > other.unscaled if self.scale == other.scale else _compare(self, other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.unscaled >= other.unscaled if self.scale == other.scale else _compare(self, other) >= 0

    def __hash__(self) -> int:
        return hash(_strip_tens(self.unscaled, self.scale))

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def compare(self, other: Quantity) -> int:
        """Return -1 if this quantity is less than `other`, 0 if they are equal, 1 if it is greater."""
        return _compare(self, other)

    def __add__(self, other: Quantity) -> Quantity:
        format = self.format if self.unscaled else other.format
        exact64 = self.exact64 and other.exact64
        if exact64 and not other.unscaled:
            return Quantity(self.unscaled, self.scale, format)
        if exact64 and not self.unscaled:
            return Quantity(other.unscaled, other.scale, format)
        ours, theirs, scale = _align(self, other)
        return Quantity(ours + theirs, scale, format, exact64=exact64)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + (-other)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.scale, self.format, exact64=self.exact64)

    @property
    def sign(self) -> int:
        """The sign of the quantity: -1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def as_int(self) -> int | None:
        """Return the value if Kubernetes reads it as a 64-bit integer without conversion, otherwise None.

        `1000m` is None although it equals one: the notation decides.
        """
        if not self.exact64 or self.scale < 0:
            return None
        if self.scale > _SIGNIFICANT_DIGITS:
            return None if self.unscaled else 0
        value = self.unscaled * 10**self.scale
        return value if MIN_INT64 <= value <= MAX_INT64 else None

    def scaled(self, scale: int) -> int:
        """Return the value in units of ten to the power of `scale`, rounded away from zero and limited to 64 bits."""
        digits = self.scale - scale
        if digits > _SIGNIFICANT_DIGITS + 1:
            return (MAX_INT64 if self.unscaled > 0 else MIN_INT64) if self.unscaled else 0
        value = self.unscaled * 10**digits if digits >= 0 else _divide_up(self.unscaled, -digits)
        return max(MIN_INT64, min(MAX_INT64, value))

    def value(self) -> int:
        """Return the value as an integer, rounded away from zero and limited to 64 bits."""
        return self.scaled(0)

    def milli(self) -> int:
        """Return the value in thousandths, rounded away from zero and limited to 64 bits."""
        return self.scaled(-3)

    def is_whole(self) -> bool:
        """Return whether this is a whole number. As in Kubernetes, very large values always count as whole."""
        milli = self.milli()
        return milli % 1000 == 0 or abs(milli) >= 2**63 - 1

    def approximate(self) -> float:
        """Return the nearest float, computed with two roundings as in Kubernetes; infinite if out of range."""
        try:
            number = float(self.unscaled)
        except OverflowError:
            number = float("inf") * self.sign
        if self.scale == 0 or not self.unscaled:
            return number
        if self.scale > _MAX_POWER_OF_FLOAT:
            return float("inf") * self.sign
        return number * (float(f"1e{self.scale}") if self.scale > -_MAX_DIGITS else 0.0)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.unscaled, self.scale, self.format, self.exact64, self._text)


def _restore(unscaled: int, scale: int, format: QuantityFormat, exact64: bool, text: str | None) -> Quantity:
    return Quantity(unscaled, scale, format, exact64=exact64, _text=text)


def _decimal_text(value: int | float) -> str:
    """Return a JSON number as text. Raises QuantityError if an integer has too many digits."""
    if isinstance(value, float):
        return repr(value)
    if abs(value) >= 10**_MAX_DIGITS:
        raise QuantityError(NUMERIC_WRONG)
    return str(value)


@remembered(4096)
def _parse(text: str) -> Quantity:
    """Parse a quantity. Cached, because the same quantities recur in many objects.

    Raises QuantityError if the text is invalid.
    """
    if not text:
        raise QuantityError(FORMAT_WRONG)
    match = _NUMBER.match(text)
    assert match is not None  # every part of the pattern may be empty
    sign, zeros, whole, _, fraction = match.groups(default="")
    rest = text[match.end() :]
    if not _SUFFIX.match(rest):
        raise QuantityError(FORMAT_WRONG)
    exponent, format = _interpret_suffix(rest)
    whole = whole or "0"
    if len(whole) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(NUMERIC_WRONG)
    short = _parse_short(text, sign == "-", whole, fraction, exponent, format)
    if short is not None:
        return short
    if not (zeros or match[3] or fraction):
        raise QuantityError(NUMERIC_WRONG)
    return _parse_long(sign == "-", whole, fraction, exponent, format)


def _interpret_suffix(suffix: str) -> tuple[int, QuantityFormat]:
    """Return the exponent of a suffix, of two for binary units and of ten for others, and its format.

    Raises QuantityError if the suffix is unknown.
    """
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], QuantityFormat.BINARY_SI
    match = _EXPONENT.match(suffix)
    if match is None or len(match[1]) > 20 or not MIN_INT64 <= int(match[1]) <= MAX_INT64:
        raise QuantityError(SUFFIX_WRONG)
    exponent = int(match[1])
    return (exponent + 2**31) % 2**32 - 2**31, QuantityFormat.DECIMAL_EXPONENT  # Kubernetes uses the low 32 bits


def _parse_short(
    text: str, negative: bool, whole: str, fraction: str, exponent: int, format: QuantityFormat
) -> Quantity | None:
    """Return the quantity in 64 bits, or None if the number is too long, too precise, or a binary fraction."""
    digits = whole + fraction
    if format is QuantityFormat.BINARY_SI:
        if fraction or 14 - len(whole) - exponent * 3 // 10 < 0:
            return None
        value, scale = int(whole) << exponent, 0
        canonical = int(whole) & 7 != 0
    else:
        scale = exponent - len(fraction)
        if len(digits) > _SIGNIFICANT_DIGITS or scale < NANO:
            return None
        value = int(digits)
        canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    # Kubernetes prints seemingly canonical text unchanged, like `1.234`.
    keep = text if canonical or text == "0" else None
    return Quantity(-value if negative else value, scale, format, _text=keep)


def _parse_long(negative: bool, whole: str, fraction: str, exponent: int, format: QuantityFormat) -> Quantity:
    """Return the quantity in arbitrary precision: rounded up to nanos, and limited to 64 bits for binary suffixes."""
    value, scale = int(whole + fraction), -len(fraction)
    if format is QuantityFormat.BINARY_SI:
        value <<= exponent
    else:
        scale += exponent
    if scale < NANO:
        value, scale = _divide_up(value, NANO - scale), NANO
    elif scale - NANO <= _MAX_DIGITS:
        value, scale = value * 10 ** (scale - NANO), NANO
    if format is QuantityFormat.BINARY_SI:
        if value > MAX_INT64 * 10**9:
            value, scale = MAX_INT64, 0
        elif 0 < value < 10**9:
            format = QuantityFormat.DECIMAL_SI
    return Quantity(-value if negative else value, scale if value else 0, format, exact64=False)


def _divide_up(value: int, digits: int) -> int:
    """Return the value divided by ten to the power of `digits`, rounded away from zero."""
    if digits > _MAX_DIGITS * 2:
        return (value > 0) - (value < 0)
    divisor: int = 10**digits
    quotient, rest = divmod(abs(value), divisor)
    quotient += rest > 0
    return quotient if value >= 0 else -quotient


def _compare(a: Quantity, b: Quantity) -> int:
    """Return -1, 0 or 1 if `a` is less than, equal to or greater than `b`."""
    if a.scale == b.scale:
        return (a.unscaled > b.unscaled) - (a.unscaled < b.unscaled)
    if a.sign != b.sign or not a.unscaled:
        return (a.sign > b.sign) - (a.sign < b.sign)
    # Compare magnitudes first, because aligning 1e2000000000 with 1 would expand all zeros.
    low_a, high_a = _magnitude(a)
    low_b, high_b = _magnitude(b)
    if low_a > high_b:
        return a.sign
    if low_b > high_a:
        return -a.sign
    left, right, _ = _align(a, b)
    return (left > right) - (left < right)


def _magnitude(quantity: Quantity) -> tuple[int, int]:
    """Return a lower and an upper bound of the number of digits before the decimal point."""
    bits = quantity.unscaled.bit_length()
    return bits // 4 + quantity.scale, bits // 3 + 1 + quantity.scale


def _align(a: Quantity, b: Quantity) -> tuple[int, int, int]:
    """Return the unscaled values of both quantities at the finer of the two scales, and this scale.

    Raises QuantityError if the scales are too far apart.
    """
    difference = a.scale - b.scale
    if abs(difference) > _MAX_DIGITS * 2:
        raise QuantityError("quantities are too far apart to be added")
    if difference >= 0:
        return a.unscaled * 10**difference, b.unscaled, b.scale
    return a.unscaled, b.unscaled * 10**-difference, a.scale


def _strip_tens(value: int, scale: int) -> tuple[int, int]:
    """Return the value without trailing zeros, and the scale increased by their number; 0 and 0 for zero."""
    if not value:
        return 0, 0
    while value % 10 == 0:
        value //= 10
        scale += 1
    return value, scale


def _canonical(quantity: Quantity) -> str:
    if not quantity.unscaled:
        return "0"
    if quantity.format is QuantityFormat.BINARY_SI and (whole := _binary_whole(quantity)) is not None:
        power = 0
        while whole % 1024 == 0:
            whole //= 1024
            power += 1
        return f"{whole}{_BINARY_SUFFIX.get(power, '')}"
    value, scale = _strip_tens(quantity.unscaled, quantity.scale)
    value *= 10 ** (scale % 3)
    scale -= scale % 3
    if quantity.format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{value}e{scale}" if scale else str(value)
    return f"{value}{_DECIMAL_SUFFIX.get(scale, '')}"  # as Kubernetes, ignore a power without a suffix


def _binary_whole(quantity: Quantity) -> int | None:
    """Return the integer to print in binary units, or None if it is below 1024 or has a fraction."""
    if quantity.scale > _MAX_DIGITS:
        return None
    power: int = 10 ** abs(quantity.scale)
    whole, rest = (quantity.unscaled * power, 0) if quantity.scale >= 0 else divmod(quantity.unscaled, power)
    return None if rest or -1024 < whole < 1024 else whole


ZERO = Quantity(0, _text="0")
