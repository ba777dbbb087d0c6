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
