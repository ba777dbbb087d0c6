"""What is served."""

from __future__ import annotations

import pytest

from dray.api.gates import FeatureGates
from dray.apiserver.served import RuntimeConfigError, parse_runtime_config, served_versions
from tests.apiserver.asking import CLAIMS


def versions(gates: str, config: str) -> dict[str, tuple[str, ...]]:
    served = served_versions(FeatureGates.parse(gates), parse_runtime_config(config))
    return {resource.qualified: found for resource, found in served.items()}


def test_everything_stable_and_beta_is_served_by_default() -> None:
    served = versions("", "")
    assert served[CLAIMS.qualified] == ("v1", "v1beta2", "v1beta1")
    assert "podgroups.scheduling.k8s.io" not in served


def test_gates_hide_resources() -> None:
    assert "podgroups.scheduling.k8s.io" in versions("GenericWorkload=true", "")
    assert CLAIMS.qualified not in versions("DynamicResourceAllocation=false", "")


def test_versions_are_turned_off_one_by_one_or_by_stage() -> None:
    assert versions("", "resource.k8s.io/v1beta1=false")[CLAIMS.qualified] == ("v1", "v1beta2")
    assert versions("", "api/beta=false")[CLAIMS.qualified] == ("v1",)
    assert versions("", "api/all=false,resource.k8s.io/v1")[CLAIMS.qualified] == ("v1",)
    assert versions("", "api/all=false,resource.k8s.io/v1").keys() >= {CLAIMS.qualified}
    assert "pods" not in versions("", "api/all=false,resource.k8s.io/v1")


@pytest.mark.parametrize("text", ["nope", "resource.k8s.io/v9=true", "resource.k8s.io/v1=perhaps"])
def test_a_choice_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(RuntimeConfigError, match="runtime config"):
        parse_runtime_config(text)
