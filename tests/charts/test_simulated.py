"""What Helm and kubectl do on simulated nodes: adopt the class that these bring, and delete a file with its Namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.testing import Cluster
from tests.charts.installing import CHARTS, PROGRAMS, run

pytestmark = pytest.mark.skipif(not (PROGRAMS / "helm").exists(), reason="needs Helm")
RELEASE = ("dra-example-driver", "--namespace=dra-example-driver")
WITH_NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: demo}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: demo}
spec:
  containers: [{name: c, image: i}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as made:
        yield made


def test_the_class_of_simulated_nodes_is_adopted_by_the_chart_of_the_example_driver(cluster: Cluster) -> None:
    assert [one["metadata"]["name"] for one in cluster.list("deviceclasses")] == ["gpu.example.com"]
    chart = str(CHARTS / "example")
    assert "deployed" in run(cluster, "helm", "upgrade", "--install", "--create-namespace", *RELEASE, chart)
    managers = cluster.get("deviceclasses", "gpu.example.com")["metadata"]["managedFields"]
    assert "helm" in {one["manager"] for one in managers}
    run(cluster, "helm", "uninstall", *RELEASE)
    assert not cluster.list("deviceclasses")


def test_a_file_that_contains_its_own_namespace_is_deleted(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(WITH_NAMESPACE)
    run(cluster, "kubectl", "apply", "-f", str(file))
    told = run(cluster, "kubectl", "delete", "-f", str(file)).splitlines()
    assert [line.split()[0] for line in told] == ["namespace", "configmap", "pod"]
    assert "demo" not in {one["metadata"]["name"] for one in cluster.list("namespaces")}
