"""The texts of causes and suggestions, one template for each code; `wording` has them among its own.

Left out: what goes into the templates (`cause_wording`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from dray.api.reasons.causes import CauseCode, SelectorCode
from dray.api.reasons.suggestions import SuggestionCode


class CausePhrase(StrEnum):
    """Parts of sentences about causes."""

    WAITS = "explain-waits"
    WAITS_NOT = "explain-waits-not"
    MEANT = "explain-meant"
    MEANT_DOMAIN = "explain-meant-domain"
    OF_OTHER_KIND = "explain-of-other-kind"
    ATTRIBUTE = "explain-attribute"
    CAPACITY = "explain-capacity"
    REQUEST = "explain-request"
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
    ALL_OF = "explain-all-of"
    SOME_OF = "explain-some-of"
    FREE_LEFT = "explain-free-left"
    BY_RULES = "explain-by-rules"
    TAINTED_TOO = "explain-tainted-too"
    USED_BY = "explain-used-by"
    USED_BY_NOBODY = "explain-used-by-nobody"
    NO_DEVICE = "explain-no-device"
    AND_NAME = "explain-and-name"
    AND_MORE = "explain-and-more"
    ON_DEVICES = "explain-on-devices"
    VALUES = "explain-values"
    NO_VALUES = "explain-no-values"
    KNOWN_NAMES = "explain-known-names"
    COMPETE = "explain-compete"
    APART = "explain-apart"
    WITHIN_CONSTRAINTS = "explain-within-constraints"
    SHARE = "explain-share"
    DIFFER = "explain-differ"
    HELD_BY = "explain-held-by"
    HOLDER = "explain-holder"
    MORE_HOLDERS = "explain-more-holders"
    HELPS = "explain-helps"
    HELPS_TOO = "explain-helps-too"
    BLIND = "explain-blind"
    LATE = "explain-late"
    FITS = "explain-fits"
    UNUSED_POOL = "explain-unused-pool"
    AMOUNTS = "explain-amounts"
    SKEW = "explain-skew"
    ELSEWHERE = "explain-elsewhere"
    LOST = "explain-lost"
    OTHER_CLAIMS = "explain-other-claims"
    ALTERNATIVE = "explain-alternative"
    EXIT = "explain-exit"
    ENDED = "explain-ended"
    ONE_RUNS = "explain-one-runs"
    NONE_WANTED = "explain-none-wanted"
    NOT_FOUND = "explain-not-found"
    IN_NAMESPACES = "explain-in-namespaces"
    MAY_NOT_LIST = "explain-may-not-list"
    GATE_HIDES = "explain-gate-hides"
    EVERY_TAKEN = "explain-every-taken"
    NO_NODE_TAKES = "explain-no-node-takes"
    NO_MORE_THAN = "explain-no-more-than"
    NOTHING_SAID = "explain-nothing-said"
    WHY_LATE = "explain-why-late"
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
    ONE_MORE_MEMBER = "explain-one-more-member"
    POOL_AGAIN_IN_ONE = "explain-pool-again-in-one"


CAUSE_TEXTS: Mapping[StrEnum, str] = {
    CausePhrase.WAITS: "{subject} waits: {why}",
    CausePhrase.WAITS_NOT: "{subject}: {why}",
    CausePhrase.MEANT: ", did you mean {meant}?",
    CausePhrase.MEANT_DOMAIN: '{kind} {name} of domain "{domain}"',
    CausePhrase.OF_OTHER_KIND: "; there is a {kind} of that name",
    CausePhrase.ATTRIBUTE: "attribute",
    CausePhrase.CAPACITY: "capacity",
    CausePhrase.REQUEST: "request {request} of claim {claim}",
    CausePhrase.REQUESTS: "requests {requests} of claim {claim}",
    CausePhrase.EXTENDED_RESOURCE: "extended resource {resource} (request {request} of the claim that is made for it)",
    CausePhrase.NEEDS: "{asked} needs {devices}",
    CausePhrase.NEEDS_ON_ONE_NODE: "{asked} needs {devices} on one node",
    CausePhrase.NEED_AND_CAUSE: "{need}, and {cause}",
    CausePhrase.NEED_THEN_CAUSE: "{need}: {cause}",
    CausePhrase.ONE_NEEDS: "needs",
    CausePhrase.SEVERAL_NEED: "need",
    CausePhrase.AT_MOST: "at most {found} on one node ({node})",
    CausePhrase.NONE_ON_ONE: "none on a node that it may use",
    CausePhrase.ALL_OF: "all {of}",
    CausePhrase.SOME_OF: "{found} of {of}",
    CausePhrase.FREE_LEFT: ", {free} free",
    CausePhrase.TAINTED_TOO: ", {number} tainted: {names}{rules}",
    CausePhrase.BY_RULES: ", by DeviceTaintRule {names}",
    CausePhrase.USED_BY: "used by {names}",
    CausePhrase.USED_BY_NOBODY: "used by nobody",
    CausePhrase.NO_DEVICE: "no device",
    CausePhrase.AND_NAME: " and ",
    CausePhrase.AND_MORE: "{names} and {more} more",
    CausePhrase.ON_DEVICES: "{what} on {devices}",
    CausePhrase.VALUES: "; {name} is {values}",
    CausePhrase.NO_VALUES: "; none of them has {name}",
    CausePhrase.KNOWN_NAMES: "; there are {names}",
    CausePhrase.COMPETE: "they need {of} devices and compete for {found}",
    CausePhrase.APART: "each could be served without the others",
    CausePhrase.WITHIN_CONSTRAINTS: "request {names} cannot be served within its constraints",
    CausePhrase.SHARE: "share {subject}: of those that are free, at most {found} on one node ({node})",
    CausePhrase.DIFFER: "all differ in {subject}: at most {found} values are free on one node ({node})",
    CausePhrase.HELD_BY: "devices that would do are held by",
    CausePhrase.HOLDER: "claim {claim}: {devices}{where} ({users})",
    CausePhrase.MORE_HOLDERS: "and {more} more claims",
    CausePhrase.HELPS: "would help: {what}",
    CausePhrase.HELPS_TOO: "or: {what}",
    CausePhrase.BLIND: "you may not list {names}; what is said here leaves them out",
    CausePhrase.LATE: "there was not enough time to look for devices on {names}",
    CausePhrase.FITS: "fits",
    CausePhrase.UNUSED_POOL: "{pool}: its devices are not used",
    CausePhrase.AMOUNTS: "{text}: {wanted} asked for, {found} left",
    CausePhrase.SKEW: "{text}: {subject} would have a skew of {found}, {wanted} is allowed",
    CausePhrase.ELSEWHERE: "claim {subject} is allocated elsewhere",
    CausePhrase.LOST: "the devices of claim {subject} did not become ready",
    CausePhrase.OTHER_CLAIMS: "its other claims cannot be served there",
    CausePhrase.ALTERNATIVE: "{name}: {why}",
    CausePhrase.EXIT: "exit code {code}",
    CausePhrase.ENDED: "container {container} ended with {how}",
    CausePhrase.ONE_RUNS: "its pod runs",
    CausePhrase.NONE_WANTED: "it wants no pods",
    CausePhrase.NOT_FOUND: '{kind} "{name}" not found',
    CausePhrase.IN_NAMESPACES: '{kind} "{name}" is not in namespace {namespace}, but in {names}',
    CausePhrase.MAY_NOT_LIST: "you may not list {names}",
    CausePhrase.GATE_HIDES: "the API server does not serve {kind}s: its gate {gate} is off, or no version of them is "
    "enabled (--runtime-config)",
    CausePhrase.EVERY_TAKEN: (
        "{asked} asks for all {needed} matching devices of a node, and at most {found} are free ({node})"
    ),
    CausePhrase.NO_NODE_TAKES: "no node takes it: {refused}",
    CausePhrase.NO_MORE_THAN: "no node that it may use has more than {found}",
    CausePhrase.NOTHING_SAID: "you may not read what decides where it runs, and no scheduler has said anything",
    CausePhrase.WHY_LATE: "why no node can serve its claims takes too long to find out",
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
    CausePhrase.ONE_MORE_MEMBER: "{number} more pod of podgroup {subject}",
    CausePhrase.POOL_AGAIN_IN_ONE: "publish pool {subject} as it is, in {number} slice with each device once",
    SelectorCode.NAME_MISSING: "{kind} {name} exists on 0 of {devices} devices{meant}",
    SelectorCode.VALUE_MISSING: "no device has {part}{values}",
    SelectorCode.PARTS_APART: "no device meets all of it: {parts}",
    SelectorCode.NOTHING_MEETS: "no device meets {part}",
    CauseCode.FINISHED: "it is finished: {subject}{message}",
    CauseCode.RUNNING: "it runs on {node}",
    CauseCode.ALLOCATED: "it is allocated: {names}; {used}",
    CauseCode.ANSWERED: "it is answered: {found} of {of} pools",
    CauseCode.NO_POOLS: "it is answered: driver {driver} has no matching pool",
    CauseCode.ANSWER_FAILED: "its computation failed: {message}",
    CauseCode.ALL_RUN: "all of its {of} pods run",
    CauseCode.CLAIM_MISSING: 'its resourceclaim "{claim}" does not exist{meant}{other}',
    CauseCode.TEMPLATE_MISSING: 'its resourceclaimtemplate "{subject}" does not exist{meant}{other}',
    CauseCode.CLASS_MISSING: "request {request} of claim {claim}: device class {subject} does not exist{meant}",
    CauseCode.GROUP_MISSING: 'its podgroup "{group}" does not exist{meant}',
    CauseCode.GROUP_CLAIM_MISSING: (
        'entry {subject} names claim "{claim}" of podgroup "{group}", which has no such claim'
    ),
    CauseCode.RESOURCE_UNKNOWN: (
        "nothing serves {subject}: no device class does, by its extendedResourceName or its own name, and no node{meant}"
    ),
    CauseCode.NO_CLAIM_CONTROLLER: (
        "the claim for entry {subject} has not been made for {whose}: does the claim controller run?"
    ),
    CauseCode.NO_SCHEDULER: "it fits on {names}, but no scheduler has looked at it: does {subject} run?",
    CauseCode.NO_CONTROLLER: (
        "nobody has answered it: no controller manager runs, or its gate DRAResourcePoolStatus is off"
    ),
    CauseCode.QUOTA: (
        'quota "{subject}" forbids its {claim}: {request} is limited to {limit}, {used} are used and {wanted} asked for'
    ),
    CauseCode.CLAIM_REFUSED: "its claim cannot be created: {message}",
    CauseCode.PODS_REFUSED: "its pods cannot be created: {message}",
    CauseCode.PODS_NOT_MADE: "{found} of its {of} pods exist: does the controller manager run?",
    CauseCode.SUSPENDED: "it is suspended (spec.suspend)",
    CauseCode.ACCOUNT_MISSING: 'its pods cannot be created: serviceaccount "{subject}" does not exist',
    CauseCode.CLAIM_DELETING: 'resourceclaim "{claim}" is being deleted{used}',
    CauseCode.CLAIM_FULL: 'resourceclaim "{claim}" is in use by {limit} consumers, and no more can be added',
    CauseCode.CLAIM_FOREIGN: 'resourceclaim "{claim}" was not created for it',
    CauseCode.CLAIM_ELSEWHERE: 'claim "{claim}" is allocated on {names}, where it may not run: {refused}',
    CauseCode.CLAIM_OUT_OF_REACH: 'claim "{claim}" is allocated where no node can reach it',
    CauseCode.CLAIMS_APART: "claims {names} are allocated on different nodes, and no node can reach all of them",
    CauseCode.CLAIM_LEFT_OVER: (
        "claim {claim}, made for its extended resources by an earlier attempt, is left over; "
        "the scheduler deletes it before the next attempt"
    ),
    CauseCode.CLAIM_UNUSABLE: "{message}",
    CauseCode.CLAIM_UNUSED: "no pod uses it: a claim is allocated when a pod that uses it gets its node",
    CauseCode.SELECTOR_FAILS: "{input}{selector}",
    CauseCode.ATTRIBUTE_UNKNOWN: "selector #{limit} matches none of {of}: {selector}",
    CauseCode.NO_MATCH: "selector #{limit} matches none of {of}: {selector}",
    CauseCode.CLASS_MATCHES_NOTHING: "class {subject} matches none of the {of} that are published: {selector}",
    CauseCode.NO_DEVICES: "no driver publishes any device",
    CauseCode.TOO_FEW_DEVICES: "{found} {step}",
    CauseCode.FEATURE_OFF: "{of} of the devices that match need gate {subject}, which is off",
    CauseCode.ALL_TAKEN: "{found} that match are taken{used}",
    CauseCode.FRAGMENTED: "{of} are free, but spread over {limit} nodes, at most {found} on one ({node})",
    CauseCode.CAPACITY_TOO_LARGE: "{found} {step}: {lacking}",
    CauseCode.CAPACITY_EXHAUSTED: "{found} {step}: {lacking}",
    CauseCode.COUNTERS_EXHAUSTED: "{found} {step}: {lacking}",
    CauseCode.TAINTED: "{found} of the {of} that match are tainted: {names}{used}",
    CauseCode.POOL_INCOMPLETE: "pool {subject} of driver {driver} cannot be used: {pool}",
    CauseCode.POOL_INVALID: "pool {subject} of driver {driver} cannot be used: {pool}",
    CauseCode.CONSTRAINT: "{asked} {needs} {of} devices that {how}",
    CauseCode.CONSTRAINT_ATTRIBUTE: (
        "{asked} {needs} devices that share {subject}, which 0 of {of} devices have{meant}"
    ),
    CauseCode.CONSTRAINT_ALL: "it asks for all matching devices, and they do not satisfy its constraint: {input}",
    CauseCode.CONFLICT: "requests {names} cannot be served together on one node: {how}",
    CauseCode.NO_COMBINATION: (
        "each request finds enough devices on {node}, but no choice of devices serves all of them at once: {names}"
    ),
    CauseCode.ALTERNATIVES_SHORT: (
        "none of the {of} alternatives of request {request} of claim {claim} can be served: {alternatives}"
    ),
    CauseCode.TOO_MANY_DEVICES: "{input}",
    CauseCode.INPUT_WRONG: "{input}",
    CauseCode.TIMED_OUT: "whether {found} of {of} nodes can serve its claims takes too long to find out: {progress}",
    CauseCode.UNKNOWN: "no node can serve its claims",
    CauseCode.NODE_RULES: "its devices are on {names}, where it may not run: {refused}",
    CauseCode.SCHEDULER_SAYS: "the scheduler says: {message}",
    CauseCode.NO_NODES: "the cluster has no nodes",
    CauseCode.SCHEDULING_GATED: "its scheduling gates hold it back: {names}",
    CauseCode.GANG_UNPLACED: 'podgroup "{group}" has no place for {of} pods at once: {message}',
    CauseCode.GANG_INCOMPLETE: 'podgroup "{group}" waits for {of} pods, and {found} exist',
    CauseCode.WILL_BE_TRIED: "it fits on {names} by now; the scheduler {subject} will try it again",
    CauseCode.DEVICES_NOT_READY: (
        "device {subject} of claim {claim} is not ready: its driver has not set condition {request}"
    ),
    CauseCode.DEVICES_FAILED: (
        "device {subject} of claim {claim} could not be made ready: condition {request} ({wanted}){message}"
    ),
    CauseCode.NODE_MISSING: "its node {node} does not exist",
    CauseCode.NODE_DEAD: "its node {node} is not ready: {message}",
    CauseCode.NODE_TROUBLE: "node {node} cannot start it: {message}",
    CauseCode.CLAIM_NOT_ALLOCATED: "node {node} waits for claim {claim}, which is not allocated",
    CauseCode.NOT_RESERVED: "node {node} waits: claim {claim} is not reserved for the pod",
    CauseCode.IMAGE: "container {subject}: image {wanted} cannot be pulled: {message}",
    CauseCode.CONTAINER_FAILS: (
        "container {subject} ends with {message} again and again (restarts: {found}); "
        "its log may say why: kubectl logs {request} -c {subject}"
    ),
    CauseCode.CONTAINER_WAITS: "container {subject} waits: {message}",
    CauseCode.NOT_READY: "it runs on {node}, but is not ready: {message}",
    CauseCode.VOLUME: "volume {subject} is not ready: {message}",
    CauseCode.INITIALIZING: "init container {subject} runs on {node}, and what comes after it waits for its end",
    CauseCode.STARTING: "node {node} has not started it yet",
    CauseCode.DELETING: "it is being deleted{used}",
    CauseCode.DELETING_NOT_UNPREPARED: (
        "it is being deleted, but driver {driver}, which must unprepare its devices, does not do so on {node}: {message}"
    ),
    CauseCode.DELETING_HELD: "it is being deleted, but finalizers hold it: {names}",
    CauseCode.OTHER_POD: "pod {subject} waits: {behind}",
    SuggestionCode.USE_CLASS: "ask for class {new} instead of {old} in {subject}",
    SuggestionCode.CREATE_CLASS: "create DeviceClass {new}, which selects the devices of driver {old}",
    SuggestionCode.CLASS_SELECTOR: "let class {subject} select with {new}",
    SuggestionCode.USE_CLAIM: "use claim {new} instead of {old} in {subject}",
    SuggestionCode.USE_TEMPLATE: "use template {new} instead of {old} in {subject}",
    SuggestionCode.AS_TEMPLATE: "write resourceClaimTemplateName instead of resourceClaimName: {new} in {subject}",
    SuggestionCode.AS_CLAIM: "write resourceClaimName instead of resourceClaimTemplateName: {new} in {subject}",
    SuggestionCode.USE_RESOURCE: "ask for {new} instead of {old} in {subject}",
    SuggestionCode.COPY_CLAIM: "create claim {new} here as it is in namespace {old}: claims are of one namespace",
    SuggestionCode.COPY_TEMPLATE: "create template {new} here as it is in namespace {old}: templates are of one namespace",
    SuggestionCode.OWN_CLAIM: "a claim of its own, {new}, instead of {old} for {subject}",
    SuggestionCode.MAKE_CLAIM_ANEW: "delete claim {subject}, so that it is made anew",
    SuggestionCode.CLAIM_AGAIN: "end {names}, and create claim {subject} again",
    SuggestionCode.SELECTOR_NAME: "write {new} instead of {old} in a selector of {subject}",
    SuggestionCode.SELECTOR_VALUE: "ask for {new} instead of {old} in {subject}",
    SuggestionCode.SELECTOR_GUARD: "write {new} instead of {old} in a selector of {subject}, since not every device has it",
    SuggestionCode.FEWER_DEVICES: "ask for {new} instead of {old} devices in {subject}",
    SuggestionCode.LESS_CAPACITY: "ask for {new} of {old} in {subject}",
    SuggestionCode.NOT_ALL: "ask for {new} instead of all devices in {subject}",
    SuggestionCode.TOLERATE_DEVICE: "tolerate {names} in {subject}",
    SuggestionCode.CONSTRAINT_NAME: "write {new} instead of {old} in a constraint of claim {subject}",
    SuggestionCode.NO_CONSTRAINT: "leave out the constraint on {old} of claim {subject}",
    SuggestionCode.SPLIT: "leave claim {old} to another pod",
    SuggestionCode.REMOVE_TAINT: "remove the taint {names} from pool {subject}",
    SuggestionCode.REMOVE_RULE: "delete DeviceTaintRule {names}",
    SuggestionCode.MORE_DEVICES: "{number} more {subject} on {node}",
    SuggestionCode.END_PODS: "end {names} on {node}",
    SuggestionCode.RAISE_QUOTA: "raise {old} of quota {subject} to {new}",
    SuggestionCode.UNCORDON: "let pods onto {node} again: kubectl uncordon {node}",
    SuggestionCode.LABEL_NODE: "label {node} with {new}",
    SuggestionCode.TOLERATE_NODE: "tolerate the taint {names} of {node} in {subject}",
    SuggestionCode.REMOVE_NODE_TAINT: "remove the taint {names} of {node}",
    SuggestionCode.ASK_LESS: "ask for {new} of {old} in {subject}, which {node} has left",
    SuggestionCode.NO_NODE_SELECTOR: "leave out {old} of {subject}",
    SuggestionCode.NO_HOST_PORT: "leave out host port {old} of {subject}",
    SuggestionCode.SPREAD_LOOSELY: "let the spread over {old} of {subject} be ScheduleAnyway",
    SuggestionCode.NO_POD_AFFINITY: "leave out the required {old} of {subject}",
    SuggestionCode.NO_NODE_NAME: "leave out spec.nodeName of {subject}, so that the scheduler places it",
    SuggestionCode.REMOVE_GATES: "remove the scheduling gates {names} of {subject}",
    SuggestionCode.USE_SCHEDULER: "let {new} schedule {subject} instead of {old}",
    SuggestionCode.CREATE_GROUP: "create PodGroup {subject}",
    SuggestionCode.GROUP_CLAIM: "name claim {new} of the group instead of {old} in {subject}",
    SuggestionCode.MORE_MEMBERS: "{number} more pods of podgroup {subject}",
    SuggestionCode.POD_AGAIN: "create {subject} again",
    SuggestionCode.POOL_AGAIN: "publish pool {subject} as it is, in {number} slices with each device once",
    SuggestionCode.CREATE_ACCOUNT: "create ServiceAccount {subject}",
}
