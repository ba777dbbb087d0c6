"""Controllers of what makes pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, Job.

Each is a small module that reads copies and writes, beside pure modules that decide; `docs/workloads.md` has the map.
"""

from dray.controllers.workloads.daemonsets import DaemonSetController
from dray.controllers.workloads.deployments import DeploymentController
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.replicasets import ReplicaSetController, ReplicationManager

__all__ = [
    "DaemonSetController",
    "DeploymentController",
    "JobController",
    "ReplicaSetController",
    "ReplicationManager",
]
