"""A cluster for each test: `Cluster` for any test framework, and the pytest fixture `dray_cluster`.

The cluster runs in a thread of the test's process, in memory, on its own port, and is deleted afterwards. Everything
else is as with `dray up`: real kubectl and real client libraries reach the cluster through its kubeconfig.

```python
pytest_plugins = ["dray.testing.plugin"]  # in conftest.py


def test_a_pod_gets_its_gpu(dray_cluster):
    dray_cluster.apply("pod.yaml")
    dray_cluster.wait("pods", "training", lambda pod: pod["status"].get("phase") == "Running")
```
"""

from dray.testing.cluster import RunningCluster as Cluster

__all__ = ["Cluster"]
