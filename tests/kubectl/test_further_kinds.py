"""The kinds that charts contain, as kubectl users and pipelines write them: tried, compared, applied, deleted together."""

from __future__ import annotations

import yaml

from tests.kubectl.conftest import Kubectl

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one"}]}}}
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SPECS = {
    "apps/v1 StatefulSet": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE},
    "apps/v1 DaemonSet": {"selector": SELECTOR, "template": TEMPLATE},
    "batch/v1 CronJob": {"schedule": "0 0 * * *", "jobTemplate": {"spec": JOB}},
    "policy/v1 PodDisruptionBudget": {"minAvailable": 1, "selector": SELECTOR},
    "v1 PersistentVolumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "v1 LimitRange": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]},
    "autoscaling/v2 HorizontalPodAutoscaler": {"maxReplicas": 3, "scaleTargetRef": TARGET},
    "networking.k8s.io/v1 NetworkPolicy": {"podSelector": {}, "ingress": [{}]},
    "networking.k8s.io/v1 Ingress": {"defaultBackend": BACKEND},
}
KINDS = ",".join(("sts", "ds", "cronjobs", "pdb", "pvc", "limitranges", "hpa", "netpol", "ingress"))


def manifests(**labels: str) -> str:
    trees = []
    for named, spec in SPECS.items():
        api_version, kind = named.split()
        trees.append(
            {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "labels": labels}, "spec": spec}
        )
    return yaml.safe_dump_all(trees)


def test_all_are_tried_applied_compared_and_deleted_together(kubectl: Kubectl) -> None:
    tried = kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifests(a="b"))
    assert tried.count("created (server dry run)") == len(SPECS)
    assert kubectl("get", KINDS, "-o", "name") == ""
    assert kubectl("apply", "--server-side", "-f", "-", stdin=manifests(a="b")).count("serverside-applied") == len(
        SPECS
    )
    assert kubectl("diff", "--server-side", "-f", "-", stdin=manifests(a="b")) == ""
    compared = kubectl("diff", "--server-side", "-f", "-", stdin=manifests(a="c"), fails=True)
    assert compared.count("+    a: c") >= len(SPECS)
    assert kubectl("apply", "--server-side", "-f", "-", stdin=manifests(a="c")).count("applied") == len(SPECS)
    assert kubectl("get", KINDS, "-l", "a=c", "-o", "name").count("/x") == len(SPECS)
    assert kubectl("delete", KINDS, "-l", "a=c", "--wait=false").count("deleted") == len(SPECS)


def test_client_side_apply_merges_by_the_keys_of_lists(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=manifests(a="b"))
    again = kubectl("apply", "-f", "-", stdin=manifests(a="b")).splitlines()
    # Whatever is replaced as a whole, such as the selector of a budget, kubectl sends each time.
    assert {line.split(".")[0].split("/")[0] for line in again if "unchanged" not in line} <= {
        "poddisruptionbudget",
        "limitrange",
    }
    assert kubectl("diff", "-f", "-", stdin=manifests(a="b")) == ""
    kubectl("set", "image", "statefulset/x", "c=two")
    assert kubectl("get", "sts", "x", "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "two"
    assert "scaled" in kubectl("scale", "sts", "x", "--replicas=3")
    assert "restarted" in kubectl("rollout", "restart", "ds/x")
