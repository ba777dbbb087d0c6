"""The list of controllers, under the names of Kubernetes' controller manager.

A controller whose feature gate is off is not created. Left out: running them (`manager`).
"""

from __future__ import annotations

from dray.api.gates import FeatureGates
from dray.controllers.accounts import RootCertificates, ServiceAccounts
from dray.controllers.claims import ClaimController
from dray.controllers.context import Factory
from dray.controllers.disruption import DisruptionController
from dray.controllers.endpoints import EndpointController
from dray.controllers.garbage import GarbageCollector
from dray.controllers.groups import GroupController
from dray.controllers.jobclaims import JobClaims
from dray.controllers.namespaces import NamespaceController
from dray.controllers.node_eviction import NodeEviction
from dray.controllers.node_health import NodeHealth
from dray.controllers.nodes import NodeGarbage
from dray.controllers.policies import PolicyStatus
from dray.controllers.poolstatus.controller import PoolStatusController
from dray.controllers.quota import QuotaController
from dray.controllers.taints import TaintEviction
from dray.controllers.volumes import VolumeController
from dray.controllers.workloads.cronjobs import CronJobController
from dray.controllers.workloads.daemonsets import DaemonSetController
from dray.controllers.workloads.deployments import DeploymentController
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.replicasets import ReplicaSetController, ReplicationManager
from dray.controllers.workloads.statefulsets import StatefulSetController

CONTROLLERS: dict[str, Factory] = {
    "cronjob": CronJobController,
    "daemonset": DaemonSetController,
    "deployment": DeploymentController,
    "device-taint-eviction": TaintEviction,
    "disruption": DisruptionController,
    "endpointslice": EndpointController,
    "garbage-collector": GarbageCollector,
    "job": JobController,
    "job-claims": JobClaims,
    "namespace": NamespaceController,
    "node-garbage": NodeGarbage,
    "node-lifecycle": NodeHealth,
    "persistentvolume-binder": VolumeController,
    "podgroup-protection": GroupController,
    "replicaset": ReplicaSetController,
    "replicationcontroller": ReplicationManager,
    "resourceclaim": ClaimController,
    "resourcepoolstatusrequest": PoolStatusController,
    "resourcequota": QuotaController,
    "root-ca-certificate-publisher": RootCertificates,
    "serviceaccount": ServiceAccounts,
    "statefulset": StatefulSetController,
    "taint-eviction": NodeEviction,
    "validatingadmissionpolicy-status": PolicyStatus,
}
GATES: dict[str, str] = {
    "device-taint-eviction": "DRADeviceTaints",
    "job-claims": "DRAReservedForWorkloads",
    "podgroup-protection": "GenericWorkload",
    "resourceclaim": "DynamicResourceAllocation",
    "resourcepoolstatusrequest": "DRAResourcePoolStatus",
}
"""The feature gate that a controller needs, for controllers that need one."""


class UnknownController(ValueError):
    """The list of controllers contains an unknown name or selects no controller."""


def chosen(names: str, gates: FeatureGates) -> list[str]:
    """Return the controllers that a list selects, as far as gates allow.

    The list has a form like `*,-namespace` or `garbage-collector,namespace`. Raises `UnknownController` for an
    unknown name or an empty selection.
    """
    wanted: dict[str, bool] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        bare = name.removeprefix("-")
        if bare != "*" and bare not in CONTROLLERS:
            raise UnknownController(
                f"controllers: unknown name {bare!r}, expected one of {', '.join(CONTROLLERS)} or *"
            )
        wanted[bare] = not name.startswith("-")
    if not any(wanted.values()):
        raise UnknownController(
            f"controllers: {names!r} selects no controller, expected names, or * as in *,-namespace"
        )
    everything = wanted.get("*", False)
    return [n for n in CONTROLLERS if wanted.get(n, everything) and (n not in GATES or gates.enabled(GATES[n]))]
