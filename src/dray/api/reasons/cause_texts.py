"""Phrases shared by the texts of several causes; part of the templates in `wording`.

The texts of the causes and suggestions themselves are in their structs (`causes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from dray.api.reasons.selector_faults import SelectorCode


class CausePhrase(StrEnum):
    """Codes of phrases within sentences about causes."""

    WAITS = "explain-waits"
    WAITS_NOT = "explain-waits-not"
    MEANT = "explain-meant"
    MEANT_DOMAIN = "explain-meant-domain"
    OF_OTHER_KIND = "explain-of-other-kind"
    ATTRIBUTE = "explain-attribute"
    CAPACITY = "explain-capacity"
    REQUEST = "explain-request"
    CLAIM_NAMED = "explain-claim-named"
    TEMPLATE_NAMED = "explain-template-named"
    REQUESTS = "explain-requests"
    EXTENDED_RESOURCE = "explain-extended-resource"
    NEEDS = "explain-needs"
    NEEDS_ON_ONE_NODE = "explain-needs-on-one-node"
    NEED_AND_CAUSE = "explain-need-and-cause"
    NEED_THEN_CAUSE = "explain-need-then-cause"
    ONE_NEEDS = "explain-one-needs"
    SEVERAL_NEED = "explain-several-need"
    AT_MOST = "explain-at-most"
    NONE_ON_ONE = "explain-none-on-one"
    BY_RULES = "explain-by-rules"
    USED_BY = "explain-used-by"
    USED_BY_NOBODY = "explain-used-by-nobody"
    AND_NAME = "explain-and-name"
    AND_MORE = "explain-and-more"
    ON_DEVICES = "explain-on-devices"
    VALUES = "explain-values"
    NO_VALUES = "explain-no-values"
    KNOWN_NAMES = "explain-known-names"
    HELD_BY = "explain-held-by"
    HOLDER = "explain-holder"
    MORE_HOLDERS = "explain-more-holders"
    HELPS = "explain-helps"
    HELPS_TOO = "explain-helps-too"
    BLIND = "explain-blind"
    TWICE = "explain-allocated-twice"
    PREEMPTS = "explain-preempts"
    PREEMPTS_VIOLATING = "explain-preempts-violating"
    ON_NODE = "explain-on-node"
    PREEMPTS_LESS = "explain-preempts-less"
    PREEMPTS_LEAST = "explain-preempts-least"
    LATE = "explain-late"
    FITS = "explain-fits"
    UNUSED_POOL = "explain-unused-pool"
    AMOUNTS = "explain-amounts"
    SKEW = "explain-skew"
    ELSEWHERE = "explain-elsewhere"
    LOST = "explain-lost"
    OTHER_CLAIMS = "explain-other-claims"
    EXIT = "explain-exit"
    ENDED = "explain-ended"
    NOT_FOUND = "explain-not-found"
    IN_NAMESPACES = "explain-in-namespaces"
    MAY_NOT_LIST = "explain-may-not-list"
    GATE_HIDES = "explain-gate-hides"
    FOR_GROUP = "explain-for-group"
    FOR_POD = "explain-for-pod"
    UNHEALTHY = "explain-unhealthy"
    COUNT_TAINTED = "explain-count-tainted"
    COUNT_UNHEALTHY = "explain-count-unhealthy"
    COUNT_BLOCKED = "explain-count-blocked"
    COUNT_UNAVAILABLE = "explain-count-unavailable"
    LACKS = "explain-lacks"
    LACKING_AMOUNT = "explain-lacking-amount"
    HOLDS_AMOUNT = "explain-holds-amount"
    AND_AMOUNT = "explain-and-amount"
    AMOUNT = "explain-amount"
    COUNTER = "explain-counter"


CAUSE_TEXTS: Mapping[str, str] = {
    CausePhrase.WAITS: "{subject} waits: {why}",
    CausePhrase.WAITS_NOT: "{subject}: {why}",
    CausePhrase.MEANT: ", did you mean {meant}?",
    CausePhrase.MEANT_DOMAIN: '{kind} {name} of domain "{domain}"',
    CausePhrase.OF_OTHER_KIND: "; there is a {kind} of that name",
    CausePhrase.ATTRIBUTE: "attribute",
    CausePhrase.CAPACITY: "capacity",
    CausePhrase.CLAIM_NAMED: "claim {claim}",
    CausePhrase.TEMPLATE_NAMED: "claim template {template}",
    CausePhrase.REQUEST: "request {request} of {claim}",
    CausePhrase.REQUESTS: "requests {requests} of {claim}",
    CausePhrase.EXTENDED_RESOURCE: "extended resource {resource} (request {request} of the claim that is made for it)",
    CausePhrase.NEEDS: "{asked} needs {devices}",
    CausePhrase.NEEDS_ON_ONE_NODE: "{asked} needs {devices} on one node",
    CausePhrase.NEED_AND_CAUSE: "{need}, and {cause}",
    CausePhrase.NEED_THEN_CAUSE: "{need}: {cause}",
    CausePhrase.ONE_NEEDS: "needs",
    CausePhrase.SEVERAL_NEED: "need",
    CausePhrase.AT_MOST: "at most {found} on one node ({node})",
    CausePhrase.NONE_ON_ONE: "none on a node that it may use",
    CausePhrase.BY_RULES: ", by DeviceTaintRule {names}",
    CausePhrase.USED_BY: "used by {names}",
    CausePhrase.USED_BY_NOBODY: "used by nobody",
    CausePhrase.AND_NAME: " and ",
    CausePhrase.AND_MORE: "{names} and {more} more",
    CausePhrase.ON_DEVICES: "{what} on {devices}",
    CausePhrase.VALUES: "; {name} is {values}",
    CausePhrase.NO_VALUES: "; none of them has {name}",
    CausePhrase.KNOWN_NAMES: "; there are {names}",
    CausePhrase.HELD_BY: "matching devices are held by:",
    CausePhrase.HOLDER: "claim {claim}: {devices}{where} ({users})",
    CausePhrase.MORE_HOLDERS: "and {more} more claims",
    CausePhrase.HELPS: "would help: {what}",
    CausePhrase.HELPS_TOO: "or: {what}",
    CausePhrase.TWICE: "device {device} is allocated to more than one claim: {claims}",
    CausePhrase.PREEMPTS: "by the scheduler's rule it preempts {pods}{where}{violating}",
    CausePhrase.PREEMPTS_VIOLATING: ", which violates disruption budgets of {count} of them",
    CausePhrase.ON_NODE: " on node {node}",
    CausePhrase.PREEMPTS_LESS: "the end of {pods}{where} would disturb less; the rule does not find that",
    CausePhrase.PREEMPTS_LEAST: "no other choice of victims disturbs less",
    CausePhrase.BLIND: "you may not list {names}; what is said here leaves them out",
    CausePhrase.LATE: "there was not enough time to look for devices on {names}",
    CausePhrase.FITS: "fits",
    CausePhrase.UNUSED_POOL: "{pool}: its devices are not used",
    CausePhrase.AMOUNTS: "{text}: {wanted} asked for, {found} left",
    CausePhrase.SKEW: "{text}: {subject} would have a skew of {found}, {wanted} is allowed",
    CausePhrase.ELSEWHERE: "claim {subject} is allocated elsewhere",
    CausePhrase.LOST: "the devices of claim {subject} did not become ready",
    CausePhrase.OTHER_CLAIMS: "its other claims cannot be served there",
    CausePhrase.EXIT: "exit code {code}",
    CausePhrase.ENDED: "container {container} ended with {how}",
    CausePhrase.NOT_FOUND: '{kind} "{name}" not found',
    CausePhrase.IN_NAMESPACES: '{kind} "{name}" is not in namespace {namespace}, but in {names}',
    CausePhrase.MAY_NOT_LIST: "you may not list {names}",
    CausePhrase.GATE_HIDES: "the API server does not serve {kind}s: its gate {gate} is off, or no version of them is "
    "enabled (--runtime-config)",
    CausePhrase.FOR_GROUP: 'podgroup "{group}"',
    CausePhrase.FOR_POD: "it",
    CausePhrase.UNHEALTHY: "unhealthy{why}",
    CausePhrase.COUNT_TAINTED: "{count} tainted{names}",
    CausePhrase.COUNT_UNHEALTHY: "{count} unhealthy{names}",
    CausePhrase.COUNT_BLOCKED: "{count} without counters left{names}",
    CausePhrase.COUNT_UNAVAILABLE: "{count} unavailable: tainted, or without counters left",
    CausePhrase.LACKS: "{device} needs {amounts}",
    CausePhrase.LACKING_AMOUNT: "{amount}, {limit}{held}",
    CausePhrase.HOLDS_AMOUNT: "{claim} holds {amount}",
    CausePhrase.AND_AMOUNT: ", and ",
    CausePhrase.AMOUNT: "{amount} of {name}",
    CausePhrase.COUNTER: "{name} of counter set {counter_set}",
    SelectorCode.NAME_MISSING: "{kind} {name} exists on 0 of {devices} devices{meant}",
    SelectorCode.VALUE_MISSING: "no device has {part}{values}",
    SelectorCode.PARTS_APART: "no device meets all of it: {parts}",
    SelectorCode.NOTHING_MEETS: "no device meets {part}",
}
