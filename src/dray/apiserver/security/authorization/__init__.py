"""Authorization: the question, the decision, and the order of authorizers.

`Authorizer.authorize` returns a decision; `Union.check` raises Forbidden with Kubernetes' text. Members of
system:masters may do everything. `node` authorizes nodes, `rbac` all users.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from dray.api.errors import Forbidden
from dray.api.users import MASTERS, User

ANY_NODE = "publish-for-any-node"
# Verbs that lift a restriction. A rule must name them, because the author of a rule with `*` did not intend them.
NAMED_ONLY = frozenset({ANY_NODE})


class Attributes(msgspec.Struct, frozen=True):
    """An action to authorize: a verb on a resource, or, if `path` is set, on a non-resource URL."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection, impersonate, escalate, bind, …
    group: str = ""
    resource: str = ""  # plural name
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""  # of list, watch and deletecollection; restricts the objects that a node sees

    def __str__(self) -> str:
        """Return the end of the sentence `User "u" cannot …`."""
        if self.path:
            return f'{self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{resource}" in API group "{self.group}" {where}'


class Decision(msgspec.Struct, frozen=True):
    """Decision of an authorizer. `denied` is final; neither allowed nor denied means no opinion."""

    allowed: bool
    reason: str = ""
    denied: bool = False


ALLOWED = Decision(True)
NO_OPINION = Decision(False)


class Authorizer(Protocol):
    """Decides whether a user may perform an action."""

    def authorize(self, user: User, attributes: Attributes) -> Decision: ...


class Union:
    """Consults its authorizers in order until one allows or denies."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision: allowed for system:masters, else that of the first authorizer with an opinion."""
        if MASTERS in user.groups:
            return ALLOWED
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(user, attributes)
            if decision.allowed or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, ", ".join(reasons)) if reasons else NO_OPINION

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise Forbidden unless the user may perform the action. Members of system:masters may do everything."""
        if MASTERS in user.groups:
            return
        decision = self.authorize(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Forbidden:
    """Return the Forbidden error for an action, in Kubernetes' wording. An empty `reason` is omitted."""
    text = f'User "{user.name}" cannot {attributes}' + (f": {reason}" if reason else "")
    return refusal(attributes.group, attributes.resource, attributes.name, text)


def refusal(group: str, resource: str, name: str, text: str) -> Forbidden:
    """Return a Forbidden error about an object: `pods "p" is forbidden: …`.

    An empty name, group or resource is omitted from the message.
    """
    qualified = f"{resource}.{group}" if group else resource
    if not resource:
        return Forbidden(f"forbidden: {text}")
    subject = f'{qualified} "{name}"' if name else qualified
    return Forbidden(f"{subject} is forbidden: {text}", name=name, group=group, kind=resource)
