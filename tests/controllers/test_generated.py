"""Names and content of claims that templates make."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dray.api import names
from dray.api.types.core import Pod
from dray.api.types.meta import OwnerReference
from dray.api.types.resource import ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.controllers import generated
from tests import objects

TEMPLATE = msgspec.convert(
    {
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        },
    },
    ResourceClaimTemplate,
)


def pod_named(name: str = "p", uid: str = "1") -> Pod:
    return msgspec.convert(objects.pod(name, namespace="ns", metadata={"uid": uid}), Pod)


def group(name: str = "g", uid: str = "2") -> PodGroup:
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns", "uid": uid}}, PodGroup)


def test_the_name_follows_from_owner_and_entry() -> None:
    name = generated.claim_name(pod_named(), "gpu")
    assert name.startswith("p-gpu-")
    assert len(name) == len("p-gpu-") + 5
    assert name == generated.claim_name(pod_named(), "gpu")


def test_another_incarnation_and_another_entry_have_other_names() -> None:
    assert generated.claim_name(pod_named(uid="1"), "gpu") != generated.claim_name(pod_named(uid="2"), "gpu")
    assert generated.claim_name(pod_named(), "gpu") != generated.claim_name(pod_named(), "nic")


@given(st.integers(1, 253), st.integers(1, 63))
def test_long_names_are_shortened_to_what_the_api_takes(owner: int, entry: int) -> None:
    name = generated.claim_name(pod_named("p" * owner), "e" * entry)
    assert len(name) <= 63
    assert not list(names.subdomain(name))


def test_of_a_long_pod_and_a_long_entry_both_stay_readable() -> None:
    assert generated.prefix_of("p" * 63, "c" * 63) == "p" * 28 + "-" + "c" * 28 + "-"
    assert generated.prefix_of("a" * 53 + "." + "b" * 20, "gpu") == "a" * 53 + "-gp-"


def test_a_claim_of_a_pod_names_its_owner_and_entry() -> None:
    claim = generated.claim_for(pod_named(), "gpu", TEMPLATE, "p-gpu-xxxxx")
    assert claim.metadata.annotations == {"note": "b", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert claim.metadata.labels == {"team": "a"}
    (owner,) = claim.metadata.ownerReferences
    assert owner == OwnerReference(
        apiVersion="v1", kind="Pod", name="p", uid="1", controller=True, blockOwnerDeletion=True
    )
    assert claim.spec.devices.requests is not None
    assert claim.spec.devices.requests[0].name == "r"


def test_a_claim_of_a_group_names_the_group() -> None:
    claim = generated.claim_for(group(), "gpu", TEMPLATE, "g-gpu-xxxxx")
    assert claim.metadata.annotations["resource.kubernetes.io/podgroup-claim-name"] == "gpu"
    (owner,) = claim.metadata.ownerReferences
    assert (owner.apiVersion, owner.kind, owner.uid) == ("scheduling.k8s.io/v1beta1", "PodGroup", "2")
