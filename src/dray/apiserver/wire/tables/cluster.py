"""Rows of what a cluster is made of: nodes, namespaces, events, configuration, access, quota, leases."""

from __future__ import annotations

from dray.api.types import (
    admissionregistration,
    apiextensions,
    apiregistration,
    certificates,
    coordination,
    core,
    events,
    flowcontrol,
    meta,
    node,
    rbac,
    scheduling,
)
from dray.apiserver.wire.tables.printer import AGE, NAME, Cell, Printer, TableColumn, counts, plain, wide
from dray.apiserver.wire.tables.text import NONE, UNKNOWN, UNSET, age, duration

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"


def _node_state(obj: core.Node) -> str:
    states = ["Ready" if c.status == "True" else "NotReady" for c in obj.status.conditions if c.type == "Ready"]
    states = states or ["Unknown"]
    return ",".join([*states, "SchedulingDisabled"] if obj.spec.unschedulable else states)


def _roles(labels: dict[str, str]) -> str:
    found = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    found.add(labels.get(ROLE_LABEL, ""))
    return ",".join(sorted(found - {""})) or NONE


def _node_address(obj: core.Node, type_: str) -> str:
    return next((a.address for a in obj.status.addresses if a.type == type_), NONE)


def _node(obj: core.Node, now: float) -> list[Cell]:
    info = obj.status.nodeInfo
    return [
        obj.metadata.name,
        _node_state(obj),
        _roles(obj.metadata.labels),
        age(obj.metadata.creationTimestamp, now),
        info.kubeletVersion,
        _node_address(obj, "InternalIP"),
        _node_address(obj, "ExternalIP"),
        info.osImage or UNKNOWN,
        info.kernelVersion or UNKNOWN,
        info.containerRuntimeVersion or UNKNOWN,
    ]


def _namespace(obj: core.Namespace, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.status.phase, age(obj.metadata.creationTimestamp, now)]


def _event_object(reference: core.ObjectReference) -> str:
    kind = reference.kind.lower()
    return f"{kind}/{reference.name}" if reference.name else kind


def _event_source(component: str, host: str) -> str:
    return f"{component}, {host}" if host else component


def _event(obj: core.Event, now: float) -> list[Cell]:
    first = obj.firstTimestamp or obj.eventTime
    last, count = obj.lastTimestamp or first, obj.count or 1
    if obj.series:
        last, count = obj.series.lastObservedTime, obj.series.count
    return [
        age(last, now),
        obj.type,
        obj.reason,
        _event_object(obj.involvedObject),
        obj.involvedObject.fieldPath,
        _event_source(obj.source.component or obj.reportingComponent, obj.source.host or obj.reportingInstance),
        obj.message.strip(),
        age(first, now),
        count,
        obj.metadata.name,
    ]


def _new_event(obj: events.Event, now: float) -> list[Cell]:
    first = obj.deprecatedFirstTimestamp or obj.eventTime
    last, count = obj.deprecatedLastTimestamp or first, obj.deprecatedCount or 1
    if obj.series:
        last, count = obj.series.lastObservedTime, obj.series.count
    source = obj.deprecatedSource
    return [
        age(last, now),
        obj.type,
        obj.reason,
        _event_object(obj.regarding),
        obj.regarding.fieldPath,
        _event_source(source.component or obj.reportingController, source.host or obj.reportingInstance),
        obj.note.strip(),
        age(first, now),
        count,
        obj.metadata.name,
    ]


def _quota(obj: core.ResourceQuota, now: float) -> list[Cell]:
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(obj.status.hard):
        text = f"{name}: {obj.status.used.get(name, '0')}/{obj.status.hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [obj.metadata.name, ", ".join(requests), ", ".join(limits), age(obj.metadata.creationTimestamp, now)]


def _config_map(obj: core.ConfigMap, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.data) + len(obj.binaryData), age(obj.metadata.creationTimestamp, now)]


def _secret(obj: core.Secret, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.type, len(obj.data), age(obj.metadata.creationTimestamp, now)]


def _service_account(obj: core.ServiceAccount, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.secrets), age(obj.metadata.creationTimestamp, now)]


def _lease(obj: coordination.Lease, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.spec.holderIdentity or "", age(obj.metadata.creationTimestamp, now)]


def _created(
    obj: rbac.Role | rbac.ClusterRole | core.LimitRange | apiextensions.CustomResourceDefinition, now: float
) -> list[Cell]:
    return [obj.metadata.name, _timestamp(obj.metadata)]


def _timestamp(metadata: meta.ObjectMeta) -> str:
    return metadata.creationTimestamp or UNKNOWN


def _binding(obj: rbac.RoleBinding | rbac.ClusterRoleBinding, now: float) -> list[Cell]:
    def subjects(kind: str) -> str:
        found = [s for s in obj.subjects or () if s.kind == kind]
        return ", ".join(f"{s.namespace}/{s.name}" if kind == "ServiceAccount" else s.name for s in found)

    return [
        obj.metadata.name,
        f"{obj.roleRef.kind}/{obj.roleRef.name}",
        age(obj.metadata.creationTimestamp, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]


def _priority_class(obj: scheduling.PriorityClass, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.value,
        obj.globalDefault,
        obj.preemptionPolicy or "",
        age(obj.metadata.creationTimestamp, now),
    ]


def _webhooks(
    obj: admissionregistration.ValidatingWebhookConfiguration | admissionregistration.MutatingWebhookConfiguration,
    now: float,
) -> list[Cell]:
    return [obj.metadata.name, len(obj.webhooks), age(obj.metadata.creationTimestamp, now)]


def _policy(
    obj: admissionregistration.ValidatingAdmissionPolicy | admissionregistration.MutatingAdmissionPolicy, now: float
) -> list[Cell]:
    kind = obj.spec.paramKind
    if isinstance(obj, admissionregistration.ValidatingAdmissionPolicy):
        rules = len(obj.spec.validations)
    else:
        rules = len(obj.spec.mutations)
    return [
        obj.metadata.name,
        rules,
        f"{kind.apiVersion}/{kind.kind}" if kind else UNSET,
        age(obj.metadata.creationTimestamp, now),
    ]


def _policy_binding(
    obj: admissionregistration.ValidatingAdmissionPolicyBinding | admissionregistration.MutatingAdmissionPolicyBinding,
    now: float,
) -> list[Cell]:
    reference = obj.spec.paramRef
    parameters = f"{reference.namespace or '*'}/{reference.name or '*'}" if reference else UNSET
    return [obj.metadata.name, obj.spec.policyName, parameters, age(obj.metadata.creationTimestamp, now)]


def _runtime(obj: node.RuntimeClass, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.handler, age(obj.metadata.creationTimestamp, now)]


def _signing_request(obj: certificates.CertificateSigningRequest, now: float) -> list[Cell]:
    expires = obj.spec.expirationSeconds
    return [
        obj.metadata.name,
        age(obj.metadata.creationTimestamp, now),
        obj.spec.signerName or NONE,
        obj.spec.username,
        duration(expires) if expires is not None else NONE,
        _signing_state(obj.status),
    ]


def _signing_state(status: certificates.CertificateSigningRequestStatus) -> str:
    held = [c.type for c in status.conditions if c.type in ("Approved", "Denied", "Failed")]
    states = sorted(set(held), key=("Denied", "Approved", "Failed").index) or ["Pending"]
    return ",".join([*states, "Issued"] if status.certificate else states)


def _flow_schema(obj: flowcontrol.FlowSchema, now: float) -> list[Cell]:
    method = obj.spec.distinguisherMethod
    missing = next((c.status for c in obj.status.conditions if c.type == "Dangling"), "?")
    return [
        obj.metadata.name,
        obj.spec.priorityLevelConfiguration.name,
        obj.spec.matchingPrecedence,
        method.type if method else NONE,
        age(obj.metadata.creationTimestamp, now),
        missing,
    ]


def _priority_level(obj: flowcontrol.PriorityLevelConfiguration, now: float) -> list[Cell]:
    limited = obj.spec.limited
    queuing = limited.limitResponse.queuing if limited else None
    shares = limited.nominalConcurrencyShares if limited else None
    return [
        obj.metadata.name,
        obj.spec.type,
        NONE if shares is None else shares,
        *((queuing.queues, queuing.handSize, queuing.queueLengthLimit) if queuing else (NONE, NONE, NONE)),
        age(obj.metadata.creationTimestamp, now),
    ]


def _api_service(obj: apiregistration.APIService, now: float) -> list[Cell]:
    service = obj.spec.service
    state = next((c for c in obj.status.conditions if c.type == "Available"), None)
    available = UNKNOWN
    if state is not None:
        available = state.status if state.status == "True" else f"{state.status} ({state.reason})"
    return [
        obj.metadata.name,
        f"{service.namespace}/{service.name}" if service else "Local",
        available,
        age(obj.metadata.creationTimestamp, now),
    ]


_EVENT_COLUMNS = (
    *plain("Last Seen", "Type", "Reason", "Object"),
    *wide("Subobject", "Source"),
    *plain("Message"),
    *wide("First Seen"),
    TableColumn("Count", type="integer", priority=1),
    TableColumn("Name", format="name", priority=1),
)
_BINDING_COLUMNS = (NAME, *plain("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts"))

NODE = Printer(
    (
        NAME,
        *plain("Status", "Roles"),
        AGE,
        *plain("Version"),
        *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    _node,
)
NAMESPACE = Printer((NAME, *plain("Status"), AGE), _namespace)
EVENT = Printer(_EVENT_COLUMNS, _event)
NEW_EVENT = Printer(_EVENT_COLUMNS, _new_event)
QUOTA = Printer((NAME, *plain("Request", "Limit"), AGE), _quota)
CONFIG_MAP = Printer((NAME, *plain("Data"), AGE), _config_map)
SECRET = Printer((NAME, *plain("Type"), *counts("Data"), AGE), _secret)
SERVICE_ACCOUNT = Printer((NAME, *counts("Secrets"), AGE), _service_account)
LEASE = Printer((NAME, *plain("Holder"), AGE), _lease)
ROLE = Printer((NAME, *plain("Created At")), _created)
DEFINITION = Printer((NAME, TableColumn("Created At", type="date")), _created)
BINDING = Printer(_BINDING_COLUMNS, _binding)
PRIORITY_CLASS = Printer(
    (NAME, *counts("Value"), TableColumn("Global-Default", type="boolean"), *plain("PreemptionPolicy"), AGE),
    _priority_class,
)
WEBHOOKS = Printer((NAME, *counts("Webhooks"), AGE), _webhooks)
POLICY = Printer((NAME, *counts("Validations"), *plain("ParamKind"), AGE), _policy)
MUTATING_POLICY = Printer((NAME, *counts("Mutations"), *plain("ParamKind"), AGE), _policy)
RUNTIME = Printer((NAME, *plain("Handler"), AGE), _runtime)
SIGNING_REQUEST = Printer(
    (NAME, AGE, *plain("SignerName", "Requestor", "RequestedDuration", "Condition")), _signing_request
)
FLOW_SCHEMA = Printer(
    (
        NAME,
        *plain("PriorityLevel"),
        *counts("MatchingPrecedence"),
        *plain("DistinguisherMethod"),
        AGE,
        *plain("MissingPL"),
    ),
    _flow_schema,
)
PRIORITY_LEVEL = Printer(
    (NAME, *plain("Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit"), AGE), _priority_level
)
API_SERVICE = Printer((NAME, *plain("Service", "Available"), AGE), _api_service)
POLICY_BINDING = Printer((NAME, *plain("PolicyName", "ParamRef"), AGE), _policy_binding)
