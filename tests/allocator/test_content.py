"""What is true of a slice's devices, also when the slice was another before."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dray.allocator import Turn
from dray.allocator.content import DeviceList
from dray.api.types.resource import Device
from dray.cel import Interrupted

DRIVER = "driver.example.com"
SELECTORS = (
    f'device.attributes["{DRIVER}"].size > 1',  # fails where there is none
    f'device.attributes["{DRIVER}"].kind == "a"',
    "true",
    "not an expression",
)


@st.composite
def devices(draw: st.DrawFn) -> list[Device]:
    names = draw(st.lists(st.sampled_from("uvwxyz"), unique=True))
    attributes = st.fixed_dictionaries(
        {"kind": st.sampled_from([{"string": "a"}, {"string": "b"}])},
        optional={"size": st.sampled_from([{"int": 1}, {"int": 2}])},
    )
    trees: list[dict[str, Any]] = [{"name": name, "attributes": draw(attributes)} for name in names]
    return [msgspec.convert(tree, Device) for tree in trees]


selectors = st.lists(st.sampled_from(SELECTORS), max_size=3).map(tuple)


@given(st.lists(st.tuples(devices(), st.lists(selectors, max_size=3)), min_size=2, max_size=5))
def test_what_followed_another_content_says_the_same_as_a_new_one(
    states: list[tuple[list[Device], list[tuple[str, ...]]]],
) -> None:
    content = None
    for found, questions in states:
        content = DeviceList(DRIVER, found, content)
        new = DeviceList(DRIVER, found)
        for question in questions:
            assert content.match(question) == new.match(question)
        assert content.match(SELECTORS[:2]) == new.match(SELECTORS[:2])


def test_selectors_that_were_interrupted_go_on_where_they_were() -> None:
    sizes = [{"int": at % 3} if at % 5 else {"string": "large"} for at in range(40)]
    found = [msgspec.convert({"name": f"d{at}", "attributes": {"size": size}}, Device) for at, size in enumerate(sizes)]
    question = ("true", SELECTORS[0])
    content, interruptions = DeviceList(DRIVER, found), 0
    while True:
        try:
            answer = content.match(question, turn=Turn(1))  # enough for one device
            break
        except Interrupted:
            interruptions += 1
    assert interruptions == 2 * (len(found) - 1)
    assert answer == DeviceList(DRIVER, found).match(question)
    assert (answer.devices.bit_count(), answer.errors.bit_count()) == (10, 8)


def test_devices_of_another_driver_are_not_those_that_were_there() -> None:
    found = [msgspec.convert({"name": "u", "attributes": {"kind": {"string": "a"}}}, Device)]
    before = DeviceList("other.example.com", found)
    assert before.match((SELECTORS[1],)).errors == 1
    assert DeviceList(DRIVER, found, before).match((SELECTORS[1],)).devices == 1
