"""Who may do what: the question, the answer, and the order in which the authorizers are asked.

`Authorizer.authorize` answers; `Authorizer.check` raises the Forbidden that Kubernetes would answer with. Members of
system:masters may do everything, without a look at any rule. Nodes are asked about in `node`, everybody in `rbac`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from dray.api.errors import Forbidden
from dray.api.users import MASTERS, User

ANY_NODE = "publish-for-any-node"
# Verbs that lift a confinement. A rule must name them: `*` was written by somebody who did not think of them.
NAMED_ONLY = frozenset({ANY_NODE})


class Attributes(msgspec.Struct, frozen=True):
    """What somebody wants to do: a verb on a resource, or, if `path` is set, on a URL that is no resource."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection, impersonate, escalate, bind, …
    group: str = ""
    resource: str = ""  # the plural
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""  # of list, watch and deletecollection: what narrows a node's view

    def __str__(self) -> str:
        """The end of the sentence `User "u" cannot …`."""
        if self.path:
            return f'{self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{resource}" in API group "{self.group}" {where}'


class Decision(msgspec.Struct, frozen=True):
    """The answer. `denied` is final; neither allowed nor denied means that this authorizer has no opinion."""

    allowed: bool
    reason: str = ""
    denied: bool = False


ALLOWED = Decision(True)
NO_OPINION = Decision(False)


class Authorizer(Protocol):
    """Answers whether a user may do something."""

    def authorize(self, user: User, attributes: Attributes) -> Decision: ...


class Union:
    """Asks its authorizers in order until one allows or denies."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def authorize(self, user: User, attributes: Attributes) -> Decision:
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
        """Raise Forbidden unless the user may do this."""
        if MASTERS in user.groups:
            return
        decision = self.authorize(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Forbidden:
    """The refusal, in Kubernetes' words."""
    text = f'User "{user.name}" cannot {attributes}' + (f": {reason}" if reason else "")
    return refusal(attributes.group, attributes.resource, attributes.name, text)


def refusal(group: str, resource: str, name: str, text: str) -> Forbidden:
    """A Forbidden about an object: `pods "p" is forbidden: …`."""
    qualified = f"{resource}.{group}" if group else resource
    if not resource:
        return Forbidden(f"forbidden: {text}")
    subject = f'{qualified} "{name}"' if name else qualified
    return Forbidden(f"{subject} is forbidden: {text}", name=name, group=group, kind=resource)
