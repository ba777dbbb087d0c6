"""What people do with custom resources, with the real kubectl and the official Python client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubectl.conftest import Kubectl

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        description: A table of times.
        properties:
          spec:
            type: object
            properties:
              cronSpec: {type: string, description: When to run.}
              replicas: {type: integer, minimum: 1, default: 1}
          status: {type: object, properties: {replicas: {type: integer}}}
"""
CRONTAB = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: my}
spec: {cronSpec: "* * * * 5"}
"""


@pytest.fixture
def crontabs(kubectl: Kubectl) -> Any:
    kubectl("apply", "-f", "-", stdin=DEFINITION)
    printed = kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=10s")
    assert "condition met" in printed
    yield
    kubectl("delete", "crd", "crontabs.stable.example.com")


@pytest.mark.usefixtures("crontabs")
def test_from_definition_to_deletion(kubectl: Kubectl) -> None:
    assert "crontabs" in kubectl("api-resources", "--api-group=stable.example.com")
    assert "created" in kubectl("apply", "-f", "-", stdin=CRONTAB)
    head, row = kubectl("get", "ct").splitlines()
    assert (head.split(), row.split()[0], row.split()[-1]) == (["NAME", "SPEC", "REPLICAS"], "my", "1")
    assert "scaled" in kubectl("scale", "--replicas=3", "crontab/my")
    assert kubectl("get", "ct", "my", "-o", "jsonpath={.spec.replicas}") == "3"
    assert "When to run." in kubectl("explain", "crontabs.spec")
    refused = kubectl("patch", "ct", "my", "--type=merge", "-p", '{"spec":{"replicas":0}}', fails=True)
    assert "spec.replicas in body should be greater than or equal to 1" in refused
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=CRONTAB)
    assert "deleted" in kubectl("delete", "ct", "my")


@pytest.mark.usefixtures("crontabs")
def test_applying_on_the_server_trying_and_comparing(kubectl: Kubectl) -> None:
    assert "(server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", stdin=CRONTAB)
    assert kubectl("get", "ct", "-o", "name") == ""
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=CRONTAB)
    changed = CRONTAB.replace("* * * * 5", "0 * * * *")
    assert "+  cronSpec: 0 * * * *" in kubectl("diff", "--server-side", "-f", "-", stdin=changed, fails=True)
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert "conflict with" in kubectl(*other, stdin=changed, fails=True)
    assert "serverside-applied" in kubectl(*other, "--force-conflicts", stdin=changed)
    assert kubectl("diff", "--server-side", "--field-manager=other", "-f", "-", stdin=changed) == ""
    assert "unknown field" in kubectl("apply", "-f", "-", stdin=CRONTAB.replace("cronSpec", "cronSpek"), fails=True)
    assert "deleted" in kubectl("delete", "ct", "--all")


@pytest.mark.usefixtures("crontabs")
def test_every_way_to_look_at_them(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CRONTAB)
    printed = kubectl("get", "crontabs.v1.stable.example.com", "my", "-o", "yaml")
    assert yaml.safe_load(printed)["spec"] == {"cronSpec": "* * * * 5", "replicas": 1}
    assert "FIELDS" in kubectl("explain", "crontab", "--recursive").upper()
    assert "A table of times." in kubectl("explain", "crontab.spec" if kubectl.minor < 20 else "crontab")
    waited = (
        kubectl("wait", "ct/my", "--for=jsonpath={.spec.replicas}=1", "--timeout=60s") if kubectl.minor >= 23 else "met"
    )
    assert "met" in waited
    assert "labeled" in kubectl("label", "ct", "my", "a=b")
    assert kubectl("get", "ct", "-l", "a=b", "-o", "name") == "crontab.stable.example.com/my\n"
    assert "my" in kubectl("get", "crontab", "-A")
    assert "crontabs.stable.example.com" in kubectl("get", "crd", "-o", "name")
    assert "Cron Spec" in kubectl("describe", "ct", "my")


@pytest.mark.usefixtures("crontabs")
def test_the_python_client_watches_applies_and_deletes_them(kubectl: Kubectl, kubeconfig: Path) -> None:
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes.dynamic import DynamicClient

    client = DynamicClient(kubernetes.config.new_client_from_config(str(kubeconfig)))
    crontabs = client.resources.get(api_version="stable.example.com/v1", kind="CronTab")
    mine = {"namespace": kubectl.namespace, "name": "my"}
    applied = crontabs.server_side_apply(body=yaml.safe_load(CRONTAB), field_manager="python", **mine)
    assert applied.metadata.managedFields[0].manager == "python"
    events = crontabs.watch(namespace=kubectl.namespace, timeout=60)
    assert next(events)["object"].metadata.name == "my"
    scaled = crontabs.scale.patch(body={"spec": {"replicas": 4}}, content_type="application/merge-patch+json", **mine)
    assert scaled.spec.replicas == 4
    assert next(events)["type"] == "MODIFIED"
    crontabs.status.patch(body={"status": {"replicas": 4}}, content_type="application/merge-patch+json", **mine)
    assert crontabs.get(**mine).status.replicas == 4
    crontabs.delete(namespace=kubectl.namespace, label_selector="a!=b")
    assert crontabs.get(namespace=kubectl.namespace).items == []


@pytest.mark.usefixtures("crontabs")
def test_the_python_client_finds_them_by_discovery(kubectl: Kubectl, kubeconfig: Path) -> None:
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes.dynamic import DynamicClient

    client = DynamicClient(kubernetes.config.new_client_from_config(str(kubeconfig)))
    crontabs = client.resources.get(api_version="stable.example.com/v1", kind="CronTab")
    made = crontabs.create(body=yaml.safe_load(CRONTAB), namespace=kubectl.namespace)
    assert made.spec.replicas == 1
    body = {"metadata": {"name": "my"}, "spec": {"replicas": 2}}
    crontabs.patch(body=body, namespace=kubectl.namespace, content_type="application/merge-patch+json")
    (found,) = crontabs.get(namespace=kubectl.namespace).items
    assert (found.metadata.name, found.spec.replicas) == ("my", 2)
    crontabs.delete(name="my", namespace=kubectl.namespace)
