"""The recorded answers of Kubernetes v1.37, asked again of this server over HTTP, on every store.

Codes, reasons, causes, objects and warnings are the same, and so are the texts, except for those in `OWN_WORDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.gates import FeatureGates
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import serving
from tests.conformance.replaying import GATES, cases, differences, replayed
from tests.store.etcd_process import Etcd

COUNTS = {"api.jsonl.gz": 165, "api-more.jsonl.gz": 80}  # files of cases, and how many there are
# Kubernetes prints the value as its internal Go struct, with other names and null fields; we print the JSON of the API.
GO_STRUCT = "the value in the text is Kubernetes' internal Go struct"
OWN_WORDS = {
    "template/immutable": GO_STRUCT,
    "slice/two-terms": GO_STRUCT,
    "pod/both-sources": GO_STRUCT,
    "pod/no-source": GO_STRUCT,
    "rbac/role-and-binding": GO_STRUCT,
    "pod/claims-immutable": "the text ends with a diff of Kubernetes' internal Go structs",
    "crd/invalid-no-storage": GO_STRUCT,
    "crd/invalid-same-version-twice": GO_STRUCT,
    "crd/invalid-bad-rule": GO_STRUCT,
    "generic/delete-precondition": "the text contains the uid of the object",
}


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "etcd":
        etcd = Etcd(tmp_path)
        etcd.start()
        yield f"etcd://{etcd.endpoint}"
        etcd.kill()
    else:
        yield "memory" if request.param == "memory" else f"sqlite:{tmp_path / 'state.db'}"


@pytest.mark.parametrize("store", ["memory", "sqlite", "etcd"], indirect=True)
@pytest.mark.parametrize("name", COUNTS)
async def test_recorded_answers_are_given_again(keys: Keys, store: str, name: str) -> None:
    recorded = cases(name)
    settings = {"gates": FeatureGates.parse(GATES), "disabled_plugins": ("ServiceAccount",)}
    found = []
    async with serving(keys, store=store, runtime_config={"api/all": True}, **settings) as http:
        for case in recorded:
            own = case["name"] in OWN_WORDS
            found += [f"{case['name']}: {text}" for text in differences(case, await replayed(http, case), own)]
    assert len(recorded) == COUNTS[name]
    assert not found, "\n".join(found)


def test_only_known_cases_have_words_of_their_own() -> None:
    names = {case["name"] for file in COUNTS for case in cases(file)}
    assert set(OWN_WORDS) <= names
