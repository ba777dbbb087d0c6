"""Causes: a claim or pods that should exist are not created."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class RaiseQuota(Suggestion, frozen=True, tag="help-raise-quota"):
    """Raise a quota."""

    TEXT = "raise {resource} of quota {quota} to {to}"

    quota: str
    resource: str
    to: str


class CreateAccount(Suggestion, frozen=True, tag="help-create-account"):
    """Create the service account that the pods refer to."""

    TEXT = "create ServiceAccount {account}"

    account: str


class QuotaExceeded(Cause, frozen=True, tag="Quota"):
    """A ResourceQuota does not allow the claim or pod to be created.

    quota: the ResourceQuota
    kind: kind of the object that is not allowed: claim or pod
    resource: the limited resource
    hard: the limit
    used: the amount in use
    wanted: the additional amount that the object needs
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
    """The API server rejects the claim that is to be created from a template.

    message: the message from the API server
    """

    TEXT = "its claim cannot be created: {message}"

    message: str


class NoClaimController(Cause, frozen=True, tag="NoClaimController"):
    """No controller has created a claim from its template.

    entry: the entry in resourceClaims that refers to the template
    group: the PodGroup that needs the claim, if the claim is for a group
    """

    TEXT = "the claim for entry {entry} has not been created for {whose}: is the claim controller running?"

    entry: str
    group: str = ""

    def words(self) -> dict[str, str]:
        return {"whose": say(CausePhrase.FOR_GROUP if self.group else CausePhrase.FOR_POD, group=self.group)}


class PodsRefused(Cause, frozen=True, tag="PodsRefused"):
    """The API server rejects the pods of the workload.

    message: the message from the API server
    """

    TEXT = "its pods cannot be created: {message}"

    message: str


class AccountMissing(Cause, frozen=True, tag="ServiceAccountMissing"):
    """The pods of the workload refer to a service account that does not exist.

    account: name of the service account
    """

    TEXT = 'its pods cannot be created: serviceaccount "{account}" does not exist'
    HELPS = (CreateAccount,)

    account: str


class PodsNotMade(Cause, frozen=True, tag="PodsNotMade"):
    """No controller has created the pods of the workload.

    existing: number of existing pods
    wanted: desired number of pods
    """

    TEXT = "{existing} of its {wanted} pods exist: is the controller manager running?"

    existing: int
    wanted: int


class JobSuspended(Cause, frozen=True, tag="Suspended"):
    """The Job is suspended."""

    TEXT = "it is suspended (spec.suspend)"
