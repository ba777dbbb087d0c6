"""Which class serves an extended resource, and what the containers of a pod need of its devices."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.extended_resources import ANNOTATION, ExtendedResources, Needs, extended_resource_claim, needs_of
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim
from dray.api.usage import ExtendedNames, usage_of
from tests import objects

GPU = "example.com/gpu"
PREFIX = "deviceclass.resource.kubernetes.io/"


def class_of(name: str, resource: str | None = GPU, created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    tree = objects.device_class(name, metadata={"creationTimestamp": created}, extendedResourceName=resource)
    return msgspec.convert(tree, DeviceClass)


def pod_of(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None) -> Pod:
    tree = objects.pod(namespace="n", metadata={"uid": "u"}, containers=list(containers), initContainers=init or [])
    return msgspec.convert(tree, Pod)


def container(name: str, count: int = 0, *, sidecar: bool = False, **others: str) -> dict[str, Any]:
    requests = {GPU: str(count), **others} if count else others
    return {"name": name, "resources": {"requests": requests}} | ({"restartPolicy": "Always"} if sidecar else {})


def shown(needs: Needs) -> tuple[dict[str, int], list[tuple[str, str]]]:
    requests = {request.name: request.exactly.count for request in needs.requests if request.exactly is not None}
    return requests, [(mapping.containerName, mapping.requestName) for mapping in needs.mappings]


@pytest.mark.parametrize("order", [*permutations(["old", "new", "b", "a"])])
def test_of_several_classes_the_newest_serves_a_name_and_of_equals_the_first(order: tuple[str, ...]) -> None:
    created = {"old": "2025-01-01T00:00:00Z"}
    known = ExtendedResources(class_of(name, created=created.get(name, "2026-01-01T00:00:00Z")) for name in order)
    assert known.class_of(GPU) == "a"
    known.upsert(class_of("new", created="2026-02-01T00:00:00Z"))
    assert known.class_of(GPU) == "new"
    known.upsert(class_of("new", None))
    assert known.remove("a")
    assert known.class_of(GPU) == "b"
    assert known.served(["cpu", GPU, f"{PREFIX}new", f"{PREFIX}a"]) == {GPU: "b", f"{PREFIX}new": "new"}


def test_requests_are_numbered_by_container_and_by_all_that_it_asks_for() -> None:
    wanted = pod_of(
        container("a", cpu="1"), container("b", 2, cpu="1", memory="1Gi"), init=[container("i", sidecar=True)]
    )
    assert shown(needs_of(wanted, {GPU: "c"})) == ({"container-2-request-1": 2}, [("b", "container-2-request-1")])


def test_init_containers_use_what_later_containers_have_and_share_what_they_need_beyond() -> None:
    wanted = pod_of(
        container("main", 2),
        init=[
            container("before", 1, sidecar=True),
            container("one", 3),
            container("side", 1, sidecar=True),
            container("two", 5),
        ],
    )
    requests, mappings = shown(needs_of(wanted, {GPU: "c"}))
    assert requests == {
        "container-0-request-0": 1,
        "container-2-request-0": 1,
        "container-3-request-0": 3,
        "container-4-request-0": 2,
    }
    assert mappings == [
        ("before", "container-0-request-0"),
        ("side", "container-2-request-0"),
        ("main", "container-4-request-0"),
        ("one", "container-2-request-0"),
        ("one", "container-4-request-0"),
        ("two", "container-4-request-0"),
        ("two", "container-3-request-0"),
    ]


needed = st.tuples(st.integers(0, 4), st.booleans())


@given(st.lists(needed, max_size=4), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_each_container_gets_what_it_asks_for_and_what_runs_together_shares_nothing(
    starting: list[tuple[int, bool]], running: list[int]
) -> None:
    init = [container(f"i{n}", count, sidecar=sidecar) for n, (count, sidecar) in enumerate(starting)]
    wanted = pod_of(*(container(f"c{n}", count) for n, count in enumerate(running)), init=init)
    requests, mappings = shown(needs_of(wanted, {GPU: "c"}))
    got: dict[str, list[str]] = {}
    for name, request in mappings:
        got.setdefault(name, []).append(request)
    sidecars = [f"i{n}" for n, (_, sidecar) in enumerate(starting) if sidecar]
    lasting = [*sidecars, *(f"c{n}" for n in range(len(running)))]
    asked = {f"i{n}": count for n, (count, _) in enumerate(starting)} | {f"c{n}": c for n, c in enumerate(running)}
    for name, count in asked.items():
        has = sum(requests[request] for request in got.get(name, []))
        assert has == count if name in lasting else has >= count
    held = [request for name in lasting for request in got.get(name, [])]
    assert len(held) == len(set(held))
    for n, (_, sidecar) in enumerate(starting):  # an init container runs beside the sidecars before it
        beside = {request for name in sidecars if int(name[1:]) < n for request in got.get(name, [])}
        assert sidecar or not beside & set(got.get(f"i{n}", []))
    peak, base = 0, 0
    for count, sidecar in starting:
        base += count if sidecar else 0
        peak = max(peak, base if sidecar else base + count)
    assert sum(requests.values()) >= max(peak, base + sum(running))


def test_the_claim_of_a_pod_says_what_it_is_and_whose() -> None:
    found = extended_resource_claim(pod_of(container("c", 1)), needs_of(pod_of(container("c", 1)), {GPU: "k"}))
    assert found.metadata.annotations == {ANNOTATION: "true"}
    assert [(ref.name, ref.uid, ref.controller) for ref in found.metadata.ownerReferences] == [("p", "u", True)]


def used(claim: ResourceClaim, owner: Pod | None) -> dict[str, str]:
    known = ExtendedNames({"k": GPU}.get, lambda namespace, name: owner)
    counted = usage_of(BY_TYPE[ResourceClaim], claim, known)
    return {name: str(amount) for name, amount in counted.items() if "/" in name and not name.startswith("count/")}


def test_claims_count_as_extended_resources_and_that_of_a_pod_only_beyond_the_pod() -> None:
    wanted = pod_of(container("c", 2))
    made = extended_resource_claim(wanted, needs_of(wanted, {GPU: "k"}))
    in_full = {"k.deviceclass.resource.k8s.io/devices": "2", f"requests.{PREFIX}k": "2", f"requests.{GPU}": "2"}
    assert used(made, wanted) == in_full | {f"requests.{GPU}": "0"}
    assert used(made, None) == in_full  # the pod is gone
    finished = msgspec.convert(msgspec.to_builtins(wanted) | {"status": {"phase": "Failed"}}, Pod)
    assert used(made, finished) == in_full
    own = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations={}))
    assert used(own, wanted) == in_full
