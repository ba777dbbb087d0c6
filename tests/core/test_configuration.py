"""KubeSchedulerConfiguration: what is read, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from dray.core.configuration import (
    DEFAULT_WEIGHTS,
    ConfigurationError,
    ConnectionSettings,
    ElectionSettings,
    SchedulerProfile,
    read,
)


def configured(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}


def test_an_empty_configuration_is_the_default_profile() -> None:
    profile = read(configured()).profiles["default-scheduler"]
    assert profile.weights == DEFAULT_WEIGHTS
    assert profile.filter_timeout == 10.0


def test_profiles_weights_and_the_filter_timeout_are_read() -> None:
    tree = configured(
        profiles=[
            {
                "schedulerName": "mine",
                "plugins": {
                    "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "DynamicResources", "weight": 7}]},
                    "filter": {"disabled": [{"name": "NodePorts"}]},
                },
                "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1m30s"}}],
            }
        ]
    )
    profile = read(tree).profiles["mine"]
    assert {name: weight for name, weight in profile.weights.items() if weight} == {"DynamicResources": 7}
    assert profile.disabled_filters == {"NodePorts"}
    assert profile.filter_timeout == 90.0


def test_what_has_no_effect_is_said() -> None:
    configuration = read(configured(parallelism=8, profiles=[{"plugins": {"bind": {}}}]))
    assert configuration.warnings == (
        "parallelism: has no effect here",
        "profiles[0].plugins.bind: has no effect here",
    )


def test_the_share_of_nodes_of_a_profile_goes_before_that_of_all() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 30}]
    configuration = read(configured(percentageOfNodesToScore=50, profiles=profiles))
    assert configuration.warnings == ()
    assert {name: one.percentage_to_score for name, one in configuration.profiles.items()} == {"a": 50, "b": 30}
    assert read(configured()).profiles["default-scheduler"].percentage_to_score == 0


@pytest.mark.parametrize("share", [-1, 101, "50%", True, 1.5])
def test_a_share_of_nodes_is_a_percentage(share: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^profiles\[0\]\.percentageOfNodesToScore: expected a whole number"):
        read(configured(profiles=[{"percentageOfNodesToScore": share}]))


def test_both_timeouts_of_dynamic_resources_are_honoured() -> None:
    args = {"kind": "DynamicResourcesArgs", "filterTimeout": "5s", "bindingTimeout": "1m"}
    configuration = read(configured(profiles=[{"pluginConfig": [{"name": "DynamicResources", "args": args}]}]))
    assert configuration.warnings == ()
    profile = configuration.profiles["default-scheduler"]
    assert (profile.filter_timeout, profile.binding_timeout) == (5.0, 60.0)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"kind": "Pod"}, "expected apiVersion"),
        ("text", "expected apiVersion"),
        (configured(profiles={}), "profiles: expected a list, got dict"),
        (configured(profiles=[{"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}]), "no plugin is called 'Nope'"),
        (configured(profiles=[{}, {}]), "'default-scheduler' is there twice"),
        (configured(profiles=[{"pluginConfig": ["x"]}]), r"pluginConfig\[0\]: expected a mapping, got str"),
        (
            configured(profiles=[{"plugins": {"score": {"disabled": [1]}}}]),
            r"disabled\[0\]: expected a mapping, got int",
        ),
        (
            configured(profiles=[{"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "soon"}}]}]),
            r"args.filterTimeout: expected a duration",
        ),
        (
            configured(profiles=[{"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "0.5s"}}]}]),
            r"args.bindingTimeout: expected 1s or more, got 0.5s",
        ),
        (
            configured(profiles=[{"pluginConfig": [{"name": "DynamicResources", "args": {"FilterTimeout": "5s"}}]}]),
            r"pluginConfig\[0\].args.FilterTimeout: DynamicResources has no such argument, expected filterTimeout",
        ),
    ],
)
def test_bad_input_is_refused_with_the_field(tree: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read(tree)


def test_the_filter_timeout_is_for_an_attempt_or_for_each_node() -> None:
    def profile(**args: str) -> SchedulerProfile:
        config = [{"name": "DynamicResources", "args": {"filterTimeout": "2s", **args}}]
        return read(configured(profiles=[{"pluginConfig": config}])).profiles["default-scheduler"]

    assert not profile().timeout_per_node
    assert not profile(filterTimeoutScope="Attempt").timeout_per_node
    assert profile(filterTimeoutScope="Node").timeout_per_node
    with pytest.raises(ConfigurationError, match=r"args\.filterTimeoutScope: expected Attempt or Node, got 'Pod'"):
        profile(filterTimeoutScope="Pod")


def test_preemption_is_turned_off_and_told_how_many_nodes_to_compare() -> None:
    args = {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 5}
    off = {"schedulerName": "off", "plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}
    more = {"schedulerName": "more", "pluginConfig": [{"name": "DefaultPreemption", "args": args}]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    found = read({**head, "profiles": [off, more]})
    assert not found.profiles["off"].preempts
    profile = found.profiles["more"]
    assert (profile.preempts, profile.candidate_percentage, profile.candidates) == (True, 20, 5)
    assert found.warnings == ()
    neither = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}
    for wrong in (neither, {"minCandidateNodesAbsolute": -1}, {"minCandidateNodesPercentage": 101}):
        with pytest.raises(ConfigurationError):
            read({**head, "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": wrong}]}]})


def test_packing_is_off_unless_it_is_turned_on() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    on = {"schedulerName": "on", "plugins": {"score": {"enabled": [{"name": "DevicePacking"}]}}}
    found = read({**head, "profiles": [{}, on]}).profiles
    assert (found["default-scheduler"].weights["DevicePacking"], found["on"].weights["DevicePacking"]) == (0, 1)


def test_the_lease_and_the_connection_are_read() -> None:
    found = read(
        configured(
            leaderElection={
                "leaderElect": True,
                "resourceLock": "leases",
                "resourceName": "second",
                "resourceNamespace": "team",
                "leaseDuration": "30s",
                "renewDeadline": "20s",
                "retryPeriod": "1m",
            },
            clientConnection={"kubeconfig": "/etc/k", "qps": 50, "burst": 100, "contentType": "application/json"},
        )
    )
    assert found.election == ElectionSettings(
        True, "second", "team", {"leaseDuration": 30, "renewDeadline": 20, "retryPeriod": 60}
    )
    assert found.connection == ConnectionSettings("/etc/k", 50.0, 100)
    assert found.warnings == ()
    assert read(configured()).election == ElectionSettings()


def test_what_has_no_effect_on_lease_and_connection_is_told() -> None:
    found = read(
        configured(
            leaderElection={"leaderElect": False, "color": "red"},
            clientConnection={"acceptContentTypes": "application/vnd.kubernetes.protobuf", "speed": 1},
        )
    )
    assert found.election.enabled is False
    assert found.warnings == (
        "leaderElection.color: has no effect here",
        "clientConnection.acceptContentTypes: 'application/vnd.kubernetes.protobuf' has no effect here, JSON is used",
        "clientConnection.speed: has no effect here",
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"leaderElection": {"leaderElect": "no"}}, r"leaderElection\.leaderElect: expected true or false, got 'no'"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, r"leaderElection\.resourceLock: expected leases"),
        ({"leaderElection": {"leaseDuration": 15}}, r"leaderElection\.leaseDuration: expected a duration"),
        ({"clientConnection": {"qps": "50"}}, r"clientConnection\.qps: expected a number, got '50'"),
        ({"clientConnection": {"burst": 1.5}}, r"clientConnection\.burst: expected a whole number, got 1\.5"),
        ({"clientConnection": {"burst": True}}, r"clientConnection\.burst: expected a whole number, got True"),
    ],
)
def test_bad_settings_of_lease_and_connection_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read(configured(**fields))
