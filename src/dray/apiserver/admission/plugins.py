"""The admission plugins of a server, in order.

Plugins that set fields come before plugins that read them; policies and webhooks see the object as it will be stored;
quota comes last, so that a request denied by another plugin is not charged. The plugins in ALWAYS are rules of the
system and cannot be disabled.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.gates import FeatureGates
from dray.apiserver.admission import AdmissionPlugin, Chain
from dray.apiserver.admission.admin_access import AdminAccess
from dray.apiserver.admission.claim_status import ClaimStatusRights
from dray.apiserver.admission.judges import JudgingContext
from dray.apiserver.admission.limit_ranges import LimitRanger
from dray.apiserver.admission.mutating_policies import MutatingPolicies
from dray.apiserver.admission.mutating_webhooks import MutatingWebhooks
from dray.apiserver.admission.namespaces import NamespaceDefaults, NamespaceLifecycle
from dray.apiserver.admission.node_restriction import NodeRestriction, NodeSlices
from dray.apiserver.admission.policy_params import FindKind
from dray.apiserver.admission.pool_status import PoolStatusLimit, RequestLimits
from dray.apiserver.admission.priority import Priority
from dray.apiserver.admission.quota import Quota
from dray.apiserver.admission.roles import RoleEscalation
from dray.apiserver.admission.runtime_classes import RuntimeClassAdmission
from dray.apiserver.admission.service_accounts import ServiceAccountAdmission
from dray.apiserver.admission.signing_requests import SigningRequests
from dray.apiserver.admission.storage_classes import DefaultStorageClass
from dray.apiserver.admission.tolerations import DefaultTolerationSeconds
from dray.apiserver.admission.validating_policies import ValidatingPolicies
from dray.apiserver.admission.webhooks import ValidatingWebhooks
from dray.apiserver.read.reader import Reader
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.steps import RequestResolver, resolver_of_its_own

ALWAYS = ("DRAAdminAccess", "DRAClaimStatus", "NodeSlices", "RoleEscalation", "SigningRequests")


def default_chain(
    reader: Reader,
    authorizer: Union,
    rbac: Rbac,
    *,
    resolver: RequestResolver | None = None,
    find_kind: FindKind | None = None,
    gates: FeatureGates = FeatureGates(),  # noqa: B008 (frozen)
    root_ca: str = "",
    disabled: Iterable[str] = (),
    pool_status: RequestLimits = RequestLimits(),  # noqa: B008 (frozen)
) -> Chain:
    """Return the chain of all plugins except the disabled ones.

    Raises ValueError for a name that is unknown or cannot be disabled.
    """
    context = JudgingContext(reader, authorizer, resolver or resolver_of_its_own(), gates, find_kind)
    mutating = MutatingPolicies(context)
    acting = None if mutating.name in (disabled := tuple(disabled)) else mutating
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(reader),
        LimitRanger(reader),
        ServiceAccountAdmission(reader),
        Priority(reader),
        DefaultTolerationSeconds(),
        DefaultStorageClass(reader),
        RuntimeClassAdmission(reader),
        SigningRequests(authorizer),
        mutating,
        MutatingWebhooks(context, acting),
        NodeRestriction(reader),
        NodeSlices(authorizer),
        RoleEscalation(authorizer, rbac),
        AdminAccess(reader),
        *([ClaimStatusRights(authorizer)] if gates.served("DRAResourceClaimGranularStatusAuthorization") else []),
        ValidatingPolicies(context),
        PoolStatusLimit(reader, pool_status),
        ValidatingWebhooks(context),
        NamespaceDefaults(reader, root_ca),
        Quota(reader, serves_extended=gates.served("DRAExtendedResource")),
    ]
    names = set(disabled)
    if kept := names.intersection(ALWAYS):
        raise ValueError(f"admission plugins that cannot be disabled: {', '.join(sorted(kept))}")
    return Chain(plugins, reader).without(names)
