"""Every kind that Kubernetes' own scheduler and controller manager list and watch is served, in the version they ask for."""

from __future__ import annotations

import pytest

from dray.api.resources import BY_NAME

SCHEDULER = """
v1: pods nodes namespaces services persistentvolumes persistentvolumeclaims replicationcontrollers
apps/v1: replicasets statefulsets
policy/v1: poddisruptionbudgets
storage.k8s.io/v1: storageclasses csinodes csidrivers csistoragecapacities volumeattachments
resource.k8s.io/v1: deviceclasses resourceclaims resourceslices devicetaintrules
scheduling.k8s.io/v1beta1: podgroups
scheduling.k8s.io/v1alpha3: compositepodgroups
"""
# PodCertificateRequests and StorageVersionMigrations are left out on purpose.
CONTROLLER_MANAGER = """
v1: pods nodes namespaces services persistentvolumes persistentvolumeclaims replicationcontrollers configmaps secrets
v1: serviceaccounts endpoints resourcequotas
apps/v1: replicasets statefulsets daemonsets deployments controllerrevisions
autoscaling/v2: horizontalpodautoscalers
batch/v1: jobs cronjobs
certificates.k8s.io/v1: certificatesigningrequests
coordination.k8s.io/v1: leases
discovery.k8s.io/v1: endpointslices
networking.k8s.io/v1: servicecidrs ipaddresses
policy/v1: poddisruptionbudgets
rbac.authorization.k8s.io/v1: clusterroles
resource.k8s.io/v1: deviceclasses resourceclaims resourceclaimtemplates resourceslices devicetaintrules
storage.k8s.io/v1: storageclasses csinodes csidrivers volumeattachments volumeattributesclasses
admissionregistration.k8s.io/v1: validatingadmissionpolicies
"""


@pytest.mark.parametrize("watched", [SCHEDULER, CONTROLLER_MANAGER], ids=["scheduler", "controller-manager"])
def test_what_kubernetes_components_watch_is_served(watched: str) -> None:
    for line in filter(None, watched.splitlines()):
        api_version, _, plurals = line.partition(": ")
        group, _, version = api_version.rpartition("/")
        for plural in plurals.split():
            resource = BY_NAME[group, plural]
            assert version in resource.versions, f"{plural} in {api_version}"
            assert {"list", "watch"} <= set(resource.verbs)
