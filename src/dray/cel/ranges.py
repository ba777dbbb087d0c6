"""Ranges of sizes and costs. Arithmetic saturates at 2^64-1 instead of overflowing."""

from __future__ import annotations

import math

import msgspec

UNBOUNDED = 2**64 - 1
_TWO_TO_64 = 2.0**64


def scale(number: int, factor: float) -> int:
    """Return the product rounded up, at most 2^64-1."""
    exact = float(number)
    if exact > 0 and factor > 0 and exact > UNBOUNDED / factor:
        return UNBOUNDED
    product = exact * factor
    return UNBOUNDED if product >= _TWO_TO_64 else math.ceil(product)


class Range(msgspec.Struct, frozen=True, gc=False):
    """Range from `least` to `most`, both included."""

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def __or__(self, other: Range) -> Range:
        """Return the smallest range that covers both ranges."""
        return Range(min(self.least, other.least), max(self.most, other.most))

    def scaled(self, factor: float) -> Range:
        """Return the range with both ends multiplied by a factor and rounded up."""
        return Range(scale(self.least, factor), scale(self.most, factor))


def fixed(number: int) -> Range:
    """Return the range that contains only this number."""
    return Range(number, number)


UNKNOWN = Range(0, UNBOUNDED)
NOTHING = Range(0, 0)
ONE = Range(1, 1)
EMPTY = Range(UNBOUNDED, 0)  # neutral element of `|`
