"""Controllers of what makes pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, StatefulSet, Job, CronJob.

Each is a small module that reads copies and writes, beside pure modules that decide; `docs/workloads.md` has the map.
"""

from dray.controllers.workloads.cronjobs import CronJobController
from dray.controllers.workloads.daemonsets import DaemonSetController
from dray.controllers.workloads.deployments import DeploymentController
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.replicasets import ReplicaSetController, ReplicationManager
from dray.controllers.workloads.statefulsets import StatefulSetController

__all__ = [
    "CronJobController",
    "DaemonSetController",
    "DeploymentController",
    "JobController",
    "ReplicaSetController",
    "ReplicationManager",
    "StatefulSetController",
]
