"""Functions of Kubernetes quantities: parsing, arithmetic and conversion to numbers."""

from __future__ import annotations

from dray.api.quantity import Quantity, QuantityError, QuantityFormat
from dray.cel import types
from dray.cel.declarations import function, method, overload, succeeds
from dray.cel.errors import EvaluationError
from dray.cel.prices import PARSING
from dray.cel.values import Value


def quantity(text: str) -> Value:
    """Evaluate `quantity(text)`: parse a quantity. Raises EvaluationError if it is invalid."""
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from error


def _as_integer(value: Quantity) -> Value:
    number = value.as_int()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _add(left: Quantity, right: Quantity) -> Value:
    try:
        return left + right
    except QuantityError as error:
        raise EvaluationError(str(error)) from error


def _subtract(left: Quantity, right: Quantity) -> Value:
    return _add(left, -right)


def _add_int(left: Quantity, right: int) -> Value:
    return _add(left, Quantity(right, format=QuantityFormat.DECIMAL_EXPONENT))


def _subtract_int(left: Quantity, right: int) -> Value:
    return _add(left, -Quantity(right, format=QuantityFormat.DECIMAL_EXPONENT))


_Q = types.QUANTITY

FUNCTIONS = (
    function("quantity", overload("string_to_quantity", (types.STRING,), _Q, quantity), price=PARSING),
    function(
        "isQuantity", overload("is_quantity_string", (types.STRING,), types.BOOL, succeeds(quantity)), price=PARSING
    ),
    function("sign", overload("quantity_sign", (_Q,), types.INT, lambda value: value.sign)),
    function("asApproximateFloat", method("quantity_get_float", (_Q,), types.DOUBLE, Quantity.approximate)),
    function("asInteger", method("quantity_get_int", (_Q,), types.INT, _as_integer)),
    function("isInteger", method("quantity_is_integer", (_Q,), types.BOOL, lambda value: value.as_int() is not None)),
    function(
        "add",
        method("quantity_add", (_Q, _Q), _Q, _add),
        method("quantity_add_int", (_Q, types.INT), _Q, _add_int),
    ),
    function(
        "sub",
        method("quantity_sub", (_Q, _Q), _Q, _subtract),
        method("quantity_sub_int", (_Q, types.INT), _Q, _subtract_int),
    ),
)
