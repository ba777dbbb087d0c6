"""What would help, as data: changes of objects that a program can make, each with a code and what it is about.

A suggestion is printed only after a trial in memory has shown that it helps (`dray.inspect.trial`). Left out: finding
suggestions (`dray.inspect.suggestions`), words (`wording`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class ChangeVerb(StrEnum):
    """What is done to an object. REPLACE deletes it and creates it again, since most of a pod or claim cannot change."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    REPLACE = "replace"


class SuggestedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of one object. `body` is the whole object, or of a PATCH the JSON merge patch.

    With `force`, a pod is deleted without the consent of its node, which is gone.
    """

    verb: ChangeVerb
    apiVersion: str
    kind: str
    name: str
    namespace: str = ""
    body: dict[str, Any] = {}
    force: bool = False


class SuggestionCode(StrEnum):
    """A kind of change that may help."""

    USE_CLASS = "help-use-class"
    CREATE_CLASS = "help-create-class"
    CLASS_SELECTOR = "help-class-selector"
    USE_CLAIM = "help-use-claim"
    USE_TEMPLATE = "help-use-template"
    AS_TEMPLATE = "help-as-template"
    AS_CLAIM = "help-as-claim"
    USE_RESOURCE = "help-use-resource"
    COPY_CLAIM = "help-copy-claim"
    COPY_TEMPLATE = "help-copy-template"
    OWN_CLAIM = "help-own-claim"
    MAKE_CLAIM_ANEW = "help-make-claim-anew"
    CLAIM_AGAIN = "help-claim-again"
    SELECTOR_NAME = "help-selector-name"
    SELECTOR_VALUE = "help-selector-value"
    SELECTOR_GUARD = "help-selector-guard"
    FEWER_DEVICES = "help-fewer-devices"
    LESS_CAPACITY = "help-less-capacity"
    NOT_ALL = "help-not-all"
    TOLERATE_DEVICE = "help-tolerate-device"
    CONSTRAINT_NAME = "help-constraint-name"
    NO_CONSTRAINT = "help-no-constraint"
    SPLIT = "help-split"
    REMOVE_TAINT = "help-remove-taint"
    REMOVE_RULE = "help-remove-rule"
    MORE_DEVICES = "help-more-devices"
    END_PODS = "help-end-pods"
    RAISE_QUOTA = "help-raise-quota"
    UNCORDON = "help-uncordon"
    LABEL_NODE = "help-label-node"
    TOLERATE_NODE = "help-tolerate-node"
    REMOVE_NODE_TAINT = "help-remove-node-taint"
    ASK_LESS = "help-ask-less"
    NO_NODE_SELECTOR = "help-no-node-selector"
    NO_HOST_PORT = "help-no-host-port"
    SPREAD_LOOSELY = "help-spread-loosely"
    NO_POD_AFFINITY = "help-no-pod-affinity"
    NO_NODE_NAME = "help-no-node-name"
    REMOVE_GATES = "help-remove-gates"
    USE_SCHEDULER = "help-use-scheduler"
    CREATE_GROUP = "help-create-group"
    GROUP_CLAIM = "help-group-claim"
    MORE_MEMBERS = "help-more-members"
    POD_AGAIN = "help-pod-again"
    POOL_AGAIN = "help-pool-again"
    CREATE_ACCOUNT = "help-create-account"


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to do. `subject` is the object that changes, `old` and `new` what changes there."""

    code: SuggestionCode
    subject: str = ""
    old: str = ""
    new: str = ""
    names: tuple[str, ...] = ()
    node: str = ""
    number: int = 0
    changes: tuple[SuggestedChange, ...] = ()
