"""Descriptions: every field of the device kinds has one, and none is left over."""

from dray.api import schema
from dray.api.descriptions import _texts, describe
from dray.api.resources import RESOURCES


def reachable(name, seen):
    if name not in seen and ".resource.v" in name:
        seen.add(name)
        for field in schema.message(name).fields.values():
            if field.reference:
                reachable(field.reference, seen)
    return seen


def test_every_message_and_field_of_the_device_kinds_is_described():
    for resource in RESOURCES:
        if resource.group == "resource.k8s.io":
            for version in resource.versions:
                for name in reachable(resource.message(version), set()):
                    assert describe(name), name
                    for field in schema.message(name).fields:
                        assert describe(name, field), f"{name}.{field}"


def test_no_description_is_of_a_field_that_does_not_exist():
    known = {}
    for name, message in schema.table().items():
        package, _, short = name.rpartition(".")
        group = "meta" if ".apis.meta." in package + "." else package.split(".")[3]
        known.setdefault(f"{group}.{short}", set()).update(message.fields)
    for name, texts in _texts().items():
        if name != "kind":
            assert set(texts) - {""} <= known[name], name


def test_a_claim_for_any_pod_is_not_said_to_be_for_those_of_one_workload():
    assert describe("io.k8s.api.resource.v1.AllocationResult", "reservedForAnyPod").startswith("Any pod that refers")


def test_what_pods_say_about_claims_and_groups_is_described():
    for message, fields in {
        "PodSpec": ("resourceClaims", "schedulingGroup", "workloadRef"),
        "PodResourceClaim": ("", *schema.message("io.k8s.api.core.v1.PodResourceClaim").fields),
        "WorkloadReference": ("", *schema.message("io.k8s.api.core.v1.WorkloadReference").fields),
    }.items():
        for field in fields:
            assert describe(f"io.k8s.api.core.v1.{message}", field), f"{message}.{field}"


def test_the_limit_of_claims_is_not_said_to_hold_where_it_does_not():
    for message in ("PodGroupSpec", "PodGroupTemplate"):
        assert describe(f"io.k8s.api.scheduling.v1alpha1.{message}", "resourceClaims").endswith(
            "v1alpha1 there is no limit."
        )


def test_other_kinds_have_none():
    assert describe("io.k8s.api.core.v1.Pod") == ""
    assert describe("io.k8s.api.core.v1.Pod", "metadata") == ""
