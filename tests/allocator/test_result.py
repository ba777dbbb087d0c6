"""What is written into claims."""

from typing import Any

from dray.allocator import Allocated, Failed, allocate
from dray.api.reasons.devices import InputCode, InputProblem
from dray.api.types.resource import ResourceClaim, ResourceSlice
from tests.allocator.building import alternatives, claim, class_, device, node, request, slice_, spec


def config(mode: str) -> dict[str, Any]:
    return {"opaque": {"driver": "gpu.example.com", "parameters": {"mode": mode}}}


CLASSES = [class_("any", config=[config("any")]), class_("plain")]
LOCAL = slice_("s", [device(f"d{at}") for at in range(4)], nodeName="n")


def result(asked: ResourceClaim, *slices: ResourceSlice) -> dict[str, Any]:
    outcome = allocate(node("n", zone="a"), [asked], CLASSES, slices or [LOCAL])
    assert isinstance(outcome, Allocated), outcome
    return outcome.results[0]


def test_class_configuration_comes_once_with_the_requests_that_use_it() -> None:
    asked = claim("a", request("x"), request("y", cls="plain"), alternatives("z", s=spec()))
    assert result(asked)["devices"]["config"] == [
        {"source": "FromClass", "requests": ["x", "z/s"], **config("any")},
    ]


def test_configuration_for_all_requests_names_none() -> None:
    assert result(claim("a", request("x"), request("y")))["devices"]["config"] == [
        {"source": "FromClass", **config("any")}
    ]


def test_claim_configuration_follows_the_alternative_that_was_chosen() -> None:
    parts = [
        {**config("all")},
        {**config("chosen"), "requests": ["r/s"]},
        {**config("other"), "requests": ["r/t"]},
        {**config("parent"), "requests": ["r"]},
    ]
    asked = claim(
        "a", alternatives("r", s=spec(cls="plain"), t=spec(cls="plain")), request("q", cls="plain"), config=parts
    )
    found = [
        (entry["opaque"]["parameters"]["mode"], entry.get("requests")) for entry in result(asked)["devices"]["config"]
    ]
    assert found == [("all", None), ("chosen", ["r/s"]), ("parent", ["r"])]


def test_results_carry_admin_access_and_tolerations() -> None:
    tolerations = [{"operator": "Exists", "key": "k"}]
    found = result(claim("a", request("r", cls="plain", adminAccess=True, tolerations=tolerations)))
    assert found["devices"]["results"] == [
        {
            "request": "r",
            "driver": "gpu.example.com",
            "pool": "p",
            "device": "d0",
            "adminAccess": True,
            "tolerations": tolerations,
        }
    ]


def test_devices_with_admin_access_are_not_taken() -> None:
    outcome = allocate(node("n"), [claim("a", request("r", adminAccess=True))], CLASSES, [LOCAL])
    assert isinstance(outcome, Allocated)
    assert outcome.devices == ((),)


def test_a_local_device_ties_the_claim_to_its_node() -> None:
    only = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    assert result(claim("a", request("r")))["nodeSelector"] == {"nodeSelectorTerms": only}


def test_selectors_of_network_attached_devices_are_joined_without_repetition() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    exists = {"key": "zone", "operator": "Exists"}
    slices = [
        slice_("s", [device("d")], pool="p", nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [zone]}]}),
        slice_(
            "t", [device("d")], pool="q", nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [zone, exists]}]}
        ),
    ]
    found = result(claim("a", request("r", 2)), *slices)
    assert found["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [zone, exists]}]}


def test_a_device_for_all_nodes_ties_the_claim_to_none() -> None:
    assert "nodeSelector" not in result(claim("a", request("r")), slice_("s", [device("d")], allNodes=True))


def test_a_selector_with_several_terms_cannot_be_written_down() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    wide = slice_("s", [device("d")], nodeSelector={"nodeSelectorTerms": [term, term]})
    outcome = allocate(node("n", zone="a"), [claim("a", request("r"))], CLASSES, [wide])
    assert outcome == Failed(InputProblem(InputCode.NODE_SELECTOR_TERMS, number=2))


def test_a_claim_that_asks_for_nothing_gets_nothing() -> None:
    assert result(claim("a")) == {"devices": {}}
