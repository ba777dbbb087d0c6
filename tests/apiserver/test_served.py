"""What is served."""

from __future__ import annotations

import pytest

from dray.api.gates import FeatureGates
from dray.api.resources import METRICS, RESOURCES
from dray.apiserver.served import RuntimeConfigError, parse_runtime_config, served_versions
from tests.apiserver.asking import CLAIMS

GATES = "GenericWorkload=true,DRAResourcePoolStatus=true,CompositePodGroup=true"
GROUPS = "podgroups.scheduling.k8s.io"
REQUESTS = "resourcepoolstatusrequests.resource.k8s.io"


def versions(gates: str, config: str, *, up: bool = True) -> dict[str, tuple[str, ...]]:
    served = served_versions(FeatureGates.parse(gates), parse_runtime_config(config), gates_enable_apis=up)
    return {f"{resource.plural}.{resource.group}".rstrip("."): found for resource, found in served.items()}


@pytest.mark.parametrize("up", [True, False])
def test_only_stable_versions_are_served_by_default(up: bool) -> None:
    for resource, found in served_versions(FeatureGates(), {}, gates_enable_apis=up).items():
        if resource.group != METRICS:
            assert not [v for v in found if "beta" in v or "alpha" in v], resource.qualified
    assert versions("", "", up=up)[CLAIMS.qualified] == ("v1",)
    assert versions("", "", up=up)["horizontalpodautoscalers.autoscaling"] == ("v2", "v1")


def test_gates_hide_resources_however_they_are_enabled() -> None:
    assert GROUPS not in versions("", "api/all=true,scheduling.k8s.io/v1beta1=true")
    assert CLAIMS.qualified not in versions("DynamicResourceAllocation=false", "api/all=true")


def test_a_gate_alone_enables_its_kinds_without_a_stable_version_in_a_whole_cluster() -> None:
    served = versions(GATES, "")
    assert served[GROUPS] == ("v1beta1", "v1alpha3", "v1alpha1")
    assert served[REQUESTS] == ("v1alpha3", "v1alpha1")
    assert served["compositepodgroups.scheduling.k8s.io"] == ("v1alpha3",)
    assert served["devicetaintrules.resource.k8s.io"] == ("v1",)


def test_a_server_alone_needs_the_gate_and_the_version() -> None:
    served = versions(GATES, "", up=False)
    assert not {GROUPS, REQUESTS, "compositepodgroups.scheduling.k8s.io"} & served.keys()
    served = versions(GATES, "scheduling.k8s.io/v1beta1=true", up=False)
    assert served[GROUPS] == ("v1beta1",)
    assert REQUESTS not in served


def test_usage_of_nodes_and_pods_is_turned_off_only_by_name() -> None:
    """In Kubernetes metrics.k8s.io is another server's, so stages do not touch it."""
    assert versions("", "api/beta=false,api/all=false,api/ga=true", up=False)["nodes.metrics.k8s.io"] == ("v1beta1",)
    assert "nodes.metrics.k8s.io" not in versions("", "metrics.k8s.io/v1beta1=false")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("resource.k8s.io/v1beta1=true", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta1", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta1=1", ("v1", "v1beta1")),
        ("api/beta=true", ("v1", "v1beta2", "v1beta1")),
        ("api/all=true", ("v1", "v1beta2", "v1beta1")),
        ("api/beta=true,resource.k8s.io/v1beta1=false", ("v1", "v1beta2")),
        ("resource.k8s.io/v1beta1=false,api/beta=true", ("v1", "v1beta2")),
        ("api/all=true,api/beta=false", ("v1",)),
        ("api/beta=false,api/all=true", ("v1",)),
        ("api/all=false,api/ga=true", ("v1",)),
        ("api/all=false,resource.k8s.io/v1beta2=true", ("v1beta2",)),
        ("api/ga=false,api/beta=true", ("v1beta2", "v1beta1")),
        ("resource.k8s.io/v1=false,api/all=true", ("v1beta2", "v1beta1")),
        ("api/alpha=true", ("v1",)),
    ],
)
def test_the_most_specific_choice_counts_in_any_order(config: str, expected: tuple[str, ...]) -> None:
    assert versions("", config)[CLAIMS.qualified] == expected
    assert versions("", config, up=False)[CLAIMS.qualified] == expected


def test_a_choice_beats_what_a_gate_enables() -> None:
    assert versions(GATES, "api/alpha=false")[GROUPS] == ("v1beta1",)
    assert REQUESTS not in versions(GATES, "api/alpha=false")
    assert versions(GATES, "scheduling.k8s.io/v1alpha1=false")[GROUPS] == ("v1beta1", "v1alpha3")
    assert "pods" not in versions("", "api/all=false,resource.k8s.io/v1")


@pytest.mark.parametrize("name", ["v1", "api/v1"])
def test_the_core_group_is_named_as_in_kubernetes(name: str) -> None:
    assert "pods" not in versions("", f"{name}=false")


def test_everything_is_served_where_all_is_on() -> None:
    served = served_versions(FeatureGates.parse("AllAlpha=true"), {"api/all": True}, gates_enable_apis=False)
    assert served == {resource: resource.versions for resource in RESOURCES}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nope", 'unknown key "nope", expected GROUP/VERSION or one of api/all, api/ga, api/beta, api/alpha'),
        ("nope.io/v1=true", 'unknown API group "nope.io"'),
        ("api/gamma=true", 'unknown API group "api"'),
        ("resource.k8s.io/v9=true", r'unknown API version "resource.k8s.io/v9"; resource.k8s.io has v1, v1alpha1'),
        ("v2=true", 'unknown key "v2"'),
        (
            "resource.k8s.io/v1=perhaps",
            'runtime config resource.k8s.io/v1: invalid value "perhaps", expected true or f',
        ),
        ("api/beta=yes", 'runtime config api/beta: invalid value "yes"'),
        ("api/all=false", "no API would be served"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(text: str, told: str) -> None:
    with pytest.raises(RuntimeConfigError, match=told):
        parse_runtime_config(text)
