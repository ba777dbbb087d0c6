"""Prices stand in the entries of functions: what is charged and what is estimated are said together."""

from __future__ import annotations

import pytest

from dray.cel.environment import every_function


@pytest.mark.parametrize("name", ["compareTo", "isGreaterThan", "sign", "major", "getHost"])
def test_a_function_without_a_price_costs_one(name: str) -> None:
    assert all(every_function()[name].price_of(overload.id) is None for overload in every_function()[name].overloads)


def test_whoever_estimates_also_charges_but_for_lists_that_are_joined() -> None:
    estimated_only = {
        overload.id
        for function in every_function().values()
        for overload in function.overloads
        for price in [function.price_of(overload.id)]
        if price is not None and price.estimate is not None and price.charge is None
    }
    assert estimated_only == {"add_list"}


def test_a_price_holds_for_all_that_share_a_name_unless_an_overload_has_its_own() -> None:
    index_of, addition = every_function()["indexOf"], every_function()["_+_"]
    assert len({id(index_of.price_of(overload.id)) for overload in index_of.overloads}) == 1
    assert addition.price_of("add_string") is not addition.price_of("add_list")
    assert addition.price_of("add_int64") is None
    assert addition.price_of("") is None  # where the values decide
