"""Recorded answers of Kubernetes v1.37 to mutated objects of 46 kinds: what is wrong, where, and in which words."""

from __future__ import annotations

from dray.api.gates import FeatureGates
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import serving
from tests.conformance.replaying import GATES, cases, differences, replayed, without_uids

COUNT = 940
READY_SOON = "Kubernetes keeps pods from a new node until it is ready; dray's nodes take pods from the start"
EMPTY_LIST = "dray does not keep whether a list or map is empty or absent"
DIFFERENT = {
    **dict.fromkeys(
        (f"validation/Node-12-1-{number}" for number in (0, 2, 6, 10, 12, 16, 22, 36, 38)),
        READY_SOON,
    ),
    "validation/Job-24-1-7": EMPTY_LIST,
}
GO_STRUCT = "the text shows Kubernetes' internal Go struct, or a diff of two"
GO_MAP = "the order of the errors is that of a Go map"
EMPTY_VALUE = "the text shows [] or {} for what dray takes as absent, or the other way round"
OWN_WORDS = {
    **dict.fromkeys(
        (
            *(f"validation/PersistentVolumeClaim-16-1-{number}" for number in (4, 14, 24, 34)),
            *(f"validation/Job-24-1-{number}" for number in (9, 19, 39)),
            "validation/PersistentVolume-17-1-4",
        ),
        GO_STRUCT,
    ),
    "validation/LimitRange-18-1-19": GO_MAP,
    "validation/Pod-10-1-2": GO_MAP,
    "validation/PersistentVolume-17-1-26": EMPTY_VALUE,
    "validation/ResourceClaimTemplate-2-1-4": EMPTY_VALUE,
    "validation/ResourceSlice-3-1-22": EMPTY_VALUE,
    "validation/StatefulSet-22-1-11": EMPTY_VALUE,
}


def short(name: str) -> str:
    return name.partition(":")[0]


async def test_recorded_answers_are_given_again(keys: Keys) -> None:
    recorded, found, differing = cases("validation.jsonl.gz"), [], set()
    settings = {"gates": FeatureGates.parse(GATES), "disabled_plugins": ("ServiceAccount",)}
    async with serving(keys, store="memory", runtime_config={"api/all": True}, **settings) as http:
        for case in recorded:
            name = short(case["name"])
            texts = list(differences(case, without_uids(await replayed(http, case)), name in OWN_WORDS))
            if texts and name in DIFFERENT:
                differing.add(name)
            else:
                found += [f"{name}: {text[:1000]}" for text in texts]
    assert len(recorded) == COUNT
    assert not found, "\n".join(found)
    assert differing == set(DIFFERENT)  # what agrees now must go from the list


def test_only_recorded_cases_are_excepted() -> None:
    names = {short(case["name"]) for case in cases("validation.jsonl.gz")}
    assert set(OWN_WORDS) | set(DIFFERENT) <= names
    assert len(DIFFERENT) + len(OWN_WORDS) < 30
