"""Texts of refusals that no recording contains, as Kubernetes' source has them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.wire import Tree
from tests.api.asking import Asking

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
PODS_OF = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
WILDCARD = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def daemon_set(**update: Any) -> Tree:
    return {"spec": {**PODS_OF, "updateStrategy": {"rollingUpdate": update}}}


def cron_job(zone: str) -> Tree:
    job = {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}
    return {"spec": {"schedule": "* * * * *", "timeZone": zone, "jobTemplate": job}}


def pod(**resources: Any) -> Tree:
    return {"spec": {"containers": [{"name": "c", "image": "x", "resources": resources}]}}


@pytest.mark.parametrize(
    ("kind", "tree", "texts"),
    [
        (
            ("", "Node"),
            {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}},
            [
                'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
                "taints must be unique by key and effect pair"
            ],
        ),
        (("", "ReplicationController"), {"spec": {"selector": {"a": "b"}}}, ["spec.template: Required value"]),
        (
            ("", "ReplicationController"),
            {"spec": {"selector": {"a": "-"}, "template": TEMPLATE}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'],
        ),
        (
            ("", "ResourceQuota"),
            {"spec": {"hard": {"a b": "1"}}},
            ['spec.hard[a b]: Invalid value: "a b": name part', "must be a standard resource for quota"],
        ),
        (
            ("apps", "DaemonSet"),
            daemon_set(maxUnavailable=0),
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        ),
        (
            ("apps", "DaemonSet"),
            daemon_set(maxSurge=1, maxUnavailable=1),
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
            ],
        ),
        (("apps", "DaemonSet"), daemon_set(maxUnavailable="101%"), ['"101%": must not be greater than 100%']),
        (
            ("apps", "Deployment"),
            {"spec": {**PODS_OF, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "x"}}}},
            ["a valid percent string must be", 'Invalid value: "x": may not be 0 when `maxSurge` is 0'],
        ),
        (("batch", "CronJob"), cron_job("a..b"), ['"a..b": time: invalid location name']),
        (("batch", "CronJob"), cron_job("-a/../b"), ['"-a/../b": unknown time zone -a/../b']),
        (("batch", "CronJob"), cron_job("Local"), ["timeZone must be an explicit time zone"]),
        (
            ("", "Pod"),
            pod(limits={"x/y/z": "1500m"}),
            ["a qualified name must consist of"] * 2 + ["doesn't follow extended resource name standard"] * 2,
        ),
        (("", "Pod"), pod(limits={"a.b/c": "1500m"}), ["must be an integer"] * 2),
        (("", "Pod"), pod(limits={"hugepages-2Mi": "2Mi"}), ["HugePages require cpu or memory"]),
        (
            ("", "Pod"),
            pod(limits={"cpu": 1, "hugepages-2Mi": "4Mi"}, requests={"hugepages-2Mi": "2Mi"}),
            ["must be equal to hugepages-2Mi limit of 4Mi"],
        ),
        (
            ("networking.k8s.io", "Ingress"),
            {"spec": {"rules": [{"host": "*"}], "defaultBackend": BACKEND}},
            [f'spec.rules[0].host: Invalid value: "*": {WILDCARD}'],
        ),
        (
            ("networking.k8s.io", "Ingress"),
            {"spec": {"tls": [{"hosts": ["*.a.b", "a.*"]}], "defaultBackend": BACKEND}},
            [f'spec.tls[0].hosts[1]: Invalid value: "a.*": {WILDCARD}'],
        ),
    ],
)
def test_refusals(kind: tuple[str, str], tree: Tree, texts: list[str]) -> None:
    found = sorted(
        map(str, Asking(*kind).create(tree)), key=lambda said: [text in said for text in texts], reverse=True
    )
    assert len(found) == len(texts), found
    assert all(text in said for text, said in zip(texts, found, strict=True)), found


def test_json_in_texts_is_escaped_as_go_does() -> None:
    template = {"metadata": {"labels": {"a": "<b>"}}, "spec": TEMPLATE["spec"]}
    found = Asking("apps", "Deployment").create({"spec": {**PODS_OF, "template": template}})
    assert '{"a":"\\u003cb\\u003e"}: `selector` does not match' in str(found[0])
