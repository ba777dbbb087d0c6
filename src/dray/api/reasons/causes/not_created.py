"""A claim or pods that should be there are not created."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class RaiseQuota(Suggestion, frozen=True, tag="help-raise-quota"):
    """A larger quota."""

    TEXT = "raise {resource} of quota {quota} to {to}"

    quota: str
    resource: str
    to: str


class CreateAccount(Suggestion, frozen=True, tag="help-create-account"):
    """The service account that pods name."""

    TEXT = "create ServiceAccount {account}"

    account: str


class QuotaExceeded(Cause, frozen=True, tag="Quota"):
    """A quota does not admit the claim or the pod.

    quota: the ResourceQuota
    kind: what it does not admit: claim or pod
    resource: what the quota limits
    hard: how much of it there may be
    used: how much of it is used
    wanted: how much more the object needs
    """

    TEXT = 'quota "{quota}" forbids its {kind}: {resource} is limited to {hard}, {used} are used and {wanted} asked for'
    HELPS = (RaiseQuota,)

    quota: str
    kind: str
    resource: str
    hard: str
    used: str
    wanted: str


class ClaimRefused(Cause, frozen=True, tag="ClaimRefused"):
    """The API server refuses the claim that is to be made from a template.

    message: what the API server says
    """

    TEXT = "its claim cannot be created: {message}"

    message: str


class NoClaimController(Cause, frozen=True, tag="NoClaimController"):
    """Nobody has made a claim from its template.

    entry: the entry of resourceClaims that names the template
    group: the PodGroup that the claim is for, where it is for a group
    """

    TEXT = "the claim for entry {entry} has not been made for {whose}: does the claim controller run?"

    entry: str
    group: str = ""

    def words(self) -> dict[str, str]:
        return {"whose": say(CausePhrase.FOR_GROUP if self.group else CausePhrase.FOR_POD, group=self.group)}


class PodsRefused(Cause, frozen=True, tag="PodsRefused"):
    """The API server refuses the pods of the workload.

    message: what the API server says
    """

    TEXT = "its pods cannot be created: {message}"

    message: str


class AccountMissing(Cause, frozen=True, tag="ServiceAccountMissing"):
    """The pods of the workload name a service account that does not exist.

    account: its name
    """

    TEXT = 'its pods cannot be created: serviceaccount "{account}" does not exist'
    HELPS = (CreateAccount,)

    account: str


class PodsNotMade(Cause, frozen=True, tag="PodsNotMade"):
    """Nobody has made the pods of the workload.

    existing: how many pods there are
    wanted: how many there are to be
    """

    TEXT = "{existing} of its {wanted} pods exist: does the controller manager run?"

    existing: int
    wanted: int


class JobSuspended(Cause, frozen=True, tag="Suspended"):
    """The job is suspended."""

    TEXT = "it is suspended (spec.suspend)"
