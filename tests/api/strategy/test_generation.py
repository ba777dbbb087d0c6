"""A generation counts changes of what it is for."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api import strategy
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND


def test_a_status_write_raises_no_generation_even_where_annotations_count() -> None:
    deployments = BY_KIND["apps", "Deployment"]
    tree: dict[str, Any] = {"metadata": {"name": "d", "generation": 3, "annotations": {"a": "1"}}, "spec": {}}
    old = msgspec.convert(tree, deployments.type)
    through_status = {**tree, "metadata": {**tree["metadata"], "annotations": {"a": "2"}}}
    strategy.prepare_update(deployments, through_status, old, "status", FeatureGates())
    assert through_status["metadata"]["generation"] == 3
    through_object = {**tree, "metadata": {**tree["metadata"], "annotations": {"a": "2"}}}
    strategy.prepare_update(deployments, through_object, old, "", FeatureGates())
    assert through_object["metadata"]["generation"] == 4


def test_templates_of_daemons_are_counted_in_an_annotation() -> None:
    daemons, counted = BY_KIND["apps", "DaemonSet"], "deprecated.daemonset.template.generation"
    tree: dict[str, Any] = {"metadata": {"name": "d"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    strategy.prepare_create(daemons, tree, FeatureGates())
    assert tree["metadata"]["annotations"] == {counted: "1"}
    old = msgspec.convert(tree, daemons.type)
    same = {"metadata": {"name": "d"}, "spec": tree["spec"]}
    strategy.prepare_update(daemons, same, old, "", FeatureGates())
    assert same["metadata"]["annotations"] == {counted: "1"}
    changed = {"metadata": {"name": "d"}, "spec": {"template": {"metadata": {"labels": {"a": "c"}}}}}
    strategy.prepare_update(daemons, changed, old, "", FeatureGates())
    assert changed["metadata"]["annotations"] == {counted: "2"}
