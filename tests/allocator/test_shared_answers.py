"""Where the index answers for many nodes or claims at once, and may not: each case is one that a shortcut got wrong."""

from __future__ import annotations

import pytest

from dray.allocator import Allocated, GaveUp, Index, allocate
from tests.allocator.building import ANY, DRIVER, Instance, alternatives, claim, device, node, request, slice_, spec

ONE = claim("one", request("r"))
ROOT = "x.io/root"


def wanting(*models: str) -> str:
    return f'device.attributes["{DRIVER}"].model in {list(models)!r}'.replace("'", '"')


def index_of(nodes: int) -> Index:
    index = Index()
    index.upsert_class(ANY)
    for number in range(nodes):
        index.upsert_node(node(f"n{number}"))
    return index


def test_nodes_that_see_other_devices_of_one_slice_are_judged_by_those() -> None:
    index = index_of(3)
    devices = [{**device("d0"), "nodeName": "n0"}, {**device("d1"), "nodeName": "n1"}]
    index.upsert_slice(slice_("s", devices, perDeviceNodeSelection=True))
    assert list(index.fits([ONE])) == ["n0", "n1"]
    index.take([(DRIVER, "p", "d0")])
    assert list(index.fits([ONE])) == ["n1"]
    index.release([(DRIVER, "p", "d0")])
    index.take([(DRIVER, "p", "d1")])
    assert list(index.fits([ONE])) == ["n0"]


def test_claims_that_come_to_want_the_same_device_do_not_both_get_it() -> None:
    first = claim("first", request("r", 1, wanting("x", "z")))
    second = claim("second", request("r", 1, wanting("y", "z")))
    index = index_of(1)
    index.upsert_slice(slice_("s0", [device("d0", model="x")], pool="p0", nodeName="n0"))
    index.upsert_slice(slice_("s1", [device("d1", model="y")], pool="p1", nodeName="n0"))
    assert list(index.fits([first, second])) == ["n0"]
    index.upsert_slice(slice_("s0", [device("d0", model="z")], pool="p0", nodeName="n0"))
    index.upsert_slice(slice_("s1", [device("d1", model="none")], pool="p1", nodeName="n0"))
    assert list(index.fits([first])) == list(index.fits([second])) == ["n0"]
    assert list(index.fits([first, second])) == []


@pytest.mark.parametrize("roots", [{}, {"d0": "a", "d1": "b"}])
def test_a_rule_about_one_alternative_does_not_rule_the_others_out(roots: dict[str, str]) -> None:
    devices = [device(name, **({ROOT: roots[name]} if roots else {})) for name in ("d0", "d1")]
    asked = alternatives("r", pair=spec(2), single=spec(1))
    constraint = {"matchAttribute": ROOT, "requests": ["r/pair"]}
    wanted = claim("c", asked, constraints=[constraint])
    instance = Instance(node(), [wanted], [ANY], [slice_("s", devices)], [], Index().features)
    outcome = allocate(*instance)
    assert isinstance(outcome, Allocated)
    assert [each.device for each in outcome.devices[0]] == ["d0"]


def test_what_was_given_up_with_few_steps_is_found_with_more() -> None:
    index = index_of(1)
    index.upsert_slice(slice_("s", [device(f"d{at}", **{ROOT: "p"}) for at in range(4)], nodeName="n0"))
    hard = claim("a", request("r", 2), request("s", 2), match=(ROOT,))
    assert isinstance(index.allocate("n0", [hard], 5), GaveUp)
    assert isinstance(index.allocate("n0", [hard]), Allocated)
