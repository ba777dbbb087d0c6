"""Deployments, replica sets, daemon sets, jobs."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.wire import Tree
from tests.api.asking import Asking, faults

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
MAKERS = [("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "DaemonSet")]


def _maker(**fields: Any) -> Tree:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **fields}
    return {"spec": {name: value for name, value in spec.items() if value is not None}}


@pytest.mark.parametrize(("group", "kind"), MAKERS)
def test_selectors_find_the_pods_of_the_template(group: str, kind: str) -> None:
    asking = Asking(group, kind)
    assert asking.create(_maker()) == []
    unmatched = [("spec.template.metadata.labels", "Invalid")]
    missing = [] if kind == "DaemonSet" else [("spec.selector", "Required")]
    assert faults(asking.create(_maker(selector=None))) == missing + unmatched
    assert faults(asking.create(_maker(selector={}))) == [("spec.selector", "Invalid")]
    assert faults(asking.create(_maker(selector={"matchLabels": {"a": "c"}}))) == unmatched


@pytest.mark.parametrize(("group", "kind"), MAKERS)
def test_selectors_do_not_change(group: str, kind: str) -> None:
    both = {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d"}}}
    new = _maker(selector={"matchLabels": {"c": "d"}}, template=both)
    assert faults(Asking(group, kind).update(_maker(template=both), new)) == [("spec.selector", "Invalid")]


@pytest.mark.parametrize(("group", "kind"), MAKERS)
def test_templates_make_pods_that_restart(group: str, kind: str) -> None:
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": ""}], "restartPolicy": "Never"}}
    assert faults(Asking(group, kind).create(_maker(template=template))) == [
        ("spec.template.spec.containers[0].image", "Required"),
        ("spec.template.spec.restartPolicy", "NotSupported"),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"replicas": -1}, [("spec.replicas", "Invalid")]),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {}}}, [("spec.strategy.rollingUpdate", "Forbidden")]),
        ({"strategy": {"type": "X"}}, [("spec.strategy", "NotSupported")]),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            [("spec.strategy.rollingUpdate.maxUnavailable", "Invalid")],
        ),
        ({"strategy": {"rollingUpdate": {"maxSurge": "a"}}}, [("spec.strategy.rollingUpdate.maxSurge", "Invalid")]),
        ({"minReadySeconds": 600}, [("spec.progressDeadlineSeconds", "Invalid")]),
    ],
)
def test_deployments(fields: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking("apps", "Deployment").create(_maker(**fields))) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"selector": {"a": "c"}}, [("spec.template.metadata.labels", "Invalid")]),
        ({"replicas": -1, "minReadySeconds": -1}, [("spec.replicas", "Invalid"), ("spec.minReadySeconds", "Invalid")]),
        ({"template": {"spec": TEMPLATE["spec"]}}, [("spec.selector", "Required")]),
    ],
)
def test_replication_controllers(fields: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking("", "ReplicationController").create({"spec": {"template": TEMPLATE, **fields}})) == expected


def test_a_replication_controller_may_choose_other_pods() -> None:
    both = {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d"}}}
    old, new = ({"spec": {"selector": chosen, "template": both}} for chosen in ({"a": "b"}, {"c": "d"}))
    assert Asking("", "ReplicationController").update(old, new) == []


JOB_TEMPLATE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}


def indexed(completions: int, parallelism: int) -> dict[str, object]:
    return {"completionMode": "Indexed", "completions": completions, "parallelism": parallelism}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"template": JOB_TEMPLATE}, []),
        ({"template": TEMPLATE}, [("spec.template.spec.restartPolicy", "Required")]),
        (
            {"template": JOB_TEMPLATE, "parallelism": -1, "backoffLimit": -1},
            [
                ("spec.parallelism", "Invalid"),
                ("spec.backoffLimit", "Invalid"),
            ],
        ),
        ({"template": JOB_TEMPLATE, "completionMode": "Indexed", "parallelism": 1}, [("spec.completions", "Required")]),
        ({"template": JOB_TEMPLATE, **indexed(200_000, 100_001)}, [("spec.parallelism", "Invalid")]),
        ({"template": JOB_TEMPLATE, **indexed(200_000, 100_000)}, []),
        (
            {"template": JOB_TEMPLATE, **indexed(200_000, 10_001), "backoffLimitPerIndex": 1},
            [("spec.parallelism", "Invalid")],
        ),
        ({"template": JOB_TEMPLATE, **indexed(100_000, 100_000), "backoffLimitPerIndex": 1}, []),
        ({"template": JOB_TEMPLATE, "completionMode": "X"}, [("spec.completionMode", "NotSupported")]),
        (
            {"template": JOB_TEMPLATE, "manualSelector": True},
            [("spec.selector", "Required"), ("spec.template.metadata.labels", "Invalid")],
        ),
    ],
)
def test_jobs(spec: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking("batch", "Job").create({"spec": spec})) == expected


def test_a_job_that_runs_keeps_its_template() -> None:
    jobs = Asking("batch", "Job")
    old = jobs.made({"spec": {"template": JOB_TEMPLATE}})
    spec = jobs.shown(old)["spec"]
    assert jobs.update(old, {"spec": {**spec, "parallelism": 3}}) == []
    assert faults(jobs.update(old, {"spec": {**spec, "completions": 2}})) == [("spec.completions", "Invalid")]
    template = {**spec["template"], "spec": {**spec["template"]["spec"], "nodeSelector": {"a": "b"}}}
    assert faults(jobs.update(old, {"spec": {**spec, "template": template}})) == [("spec.template", "Invalid")]
