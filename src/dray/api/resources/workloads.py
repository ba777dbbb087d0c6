"""What runs pods, and what says how many: sets, jobs, autoscalers, disruption budgets."""

from __future__ import annotations

from dray.api.resources.row import ALL, SCALED, Resource
from dray.api.types import apps, autoscaling, batch, policy

ROWS: tuple[Resource, ...] = (
    Resource(
        "apps",
        "deployments",
        "Deployment",
        apps.Deployment,
        short_names=("deploy",),
        categories=ALL,
        subresources=SCALED,
    ),
    Resource(
        "apps",
        "replicasets",
        "ReplicaSet",
        apps.ReplicaSet,
        short_names=("rs",),
        categories=ALL,
        subresources=SCALED,
    ),
    Resource(
        "apps",
        "daemonsets",
        "DaemonSet",
        apps.DaemonSet,
        short_names=("ds",),
        categories=ALL,
        subresources=("status",),
    ),
    Resource("batch", "jobs", "Job", batch.Job, categories=ALL, subresources=("status",)),
    Resource(
        "apps",
        "statefulsets",
        "StatefulSet",
        apps.StatefulSet,
        short_names=("sts",),
        categories=ALL,
        subresources=SCALED,
    ),
    Resource("apps", "controllerrevisions", "ControllerRevision", apps.ControllerRevision),
    Resource(
        "batch", "cronjobs", "CronJob", batch.CronJob, short_names=("cj",), categories=ALL, subresources=("status",)
    ),
    Resource(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        autoscaling.HorizontalPodAutoscaler,
        versions=("v2", "v1"),
        stored="v2",
        short_names=("hpa",),
        categories=ALL,
        subresources=("status",),
        inert=True,
    ),
    Resource(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        policy.PodDisruptionBudget,
        short_names=("pdb",),
        subresources=("status",),
    ),
)
