"""Every limit of the API server in one table: what is limited, the number, the response, and Kubernetes' limit.

The rule behind the numbers: no single request or watcher may occupy the event loop for more than 20 ms of processor
time, or hold more than a few hundred KiB of memory that is not shared. `docs/security.md` prints `TABLE`, and a test
compares the two. Limits of one kind of object are in validation; limits of CEL are in `cel`.
"""

from __future__ import annotations

import msgspec

from dray.api.custom.pruning import MOST_DEFAULTS
from dray.api.custom.values import MOST_STEPS
from dray.api.kinds.cluster_role import MOST_PERMISSIONS
from dray.api.validation.placement import MOST_NEIGHBOUR_RULES
from dray.apiserver.write.patches.effort import MOST_STEPS as MOST_PATCH_STEPS

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Adjustable limits. A server uses the defaults; tests lower some of them."""

    # Before authentication.
    connections: int = 16_384
    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    idle_seconds: float = 120.0
    head_bytes: int = 64 * KIB
    headers: int = 256
    pipelined: int = 64
    # Of a request.
    requests: int = 1000
    requests_of_user: int = 250
    body: int = 3 * MIB
    body_seconds: float = 10.0
    body_bytes_a_second: int = 64 * KIB
    depth: int = 200
    values: int = 150_000
    large_bodies: int = 24 * MIB
    large_bodies_of_user: int = 8 * MIB
    selector_terms: int = 1000
    conversion_seconds: float = 30.0
    # Of an answer.
    unread_seconds: float = 30.0
    piece: int = 64 * KIB
    whole_answers: int = 64 * MIB
    status_bytes: int = 64 * KIB
    warnings: int = 4096
    ready_seconds: float = 1.0
    # Of watches.
    watchers: int = 10_000
    watchers_of_user: int = 1000
    # Of logs.
    log_silent_seconds: float = 60.0
    log_seconds: float = 4 * 3600.0
    log_bytes: int = GIB


LARGEST_OBJECT = 3 * MIB // 2  # bytes of a stored object; etcd accepts no more in one request
LARGE = 32 * KIB  # bytes of a body or object, above which its steps run in the worker thread
BACKGROUND_SECONDS = 60.0  # maximum time that a request waits for the worker process
ROW_VALUES = 5000  # values that the columns of a custom object may read: 1.5 ms
WEBHOOK_CONNECTIONS = 64  # to one webhook
OWN_WEBHOOK_CONNECTIONS = 8  # of these, reserved for each webhook
SHARED_WEBHOOK_CONNECTIONS = 128  # in addition to the reserved ones, shared by all webhooks of one kind
STREAM_MESSAGE = MIB  # bytes of a message on a WebSocket into a pod
STREAM_FRAME = 256 * KIB  # bytes of a SPDY frame
STREAM_WAITING = 256 * KIB  # bytes that a client has sent into a pod and the pod has not read
STREAMS = 1024  # concurrent streams on a SPDY connection
STREAM_HEADERS = 8 * KIB  # bytes of the headers of a SPDY stream, decompressed
SHARED_BYTES = 32 * MIB  # bytes of encoded events, and of objects encoded in other versions, cached for the next reader


class LimitRow(msgspec.Struct, frozen=True):
    """One row of the table. `limit` is the name of a field of `Limits`, or a number."""

    what: str
    limit: str | int
    answer: str
    kubernetes: str = "–"


TABLE = (
    LimitRow("connections at once", "connections", "closed", "number of open files"),
    LimitRow("seconds for a TLS handshake", "handshake_seconds", "closed", "32"),
    LimitRow("seconds for request line and headers, once begun; and for a new connection to begin", "head_seconds", "closed", "32"),
    LimitRow("seconds without a request on an open connection", "idle_seconds", "closed", "90"),
    LimitRow("bytes of request line and headers", "head_bytes", "431, closed", "1 MiB"),
    LimitRow("headers of a request", "headers", "431, closed"),
    LimitRow("requests on one connection before the answer to the first", "pipelined", "closed"),
    LimitRow("requests at once, but for watches", "requests", "429, Retry-After", "600 in shares"),
    LimitRow("requests at once of one user (not of system:masters)", "requests_of_user", "429, Retry-After", "fair queues"),
    LimitRow("bytes of a body", "body", "413", "3 MiB"),
    LimitRow("seconds for a body to arrive, and one more for each 64 KiB of it", "body_seconds", "closed", "60"),
    LimitRow("levels of nesting in JSON, YAML and protobuf", "depth", "400", "10,000"),
    LimitRow("values in an object or patch that is sent; operations in a patch, 10,000", "values", "413", "10,000 operations"),
    LimitRow("values of what a JSON patch makes; its copies alone: as many, and 3 MiB, or 422", "values", "413", "3 MiB of copies"),
    LimitRow("steps to apply a patch: 6 for each copied value or element of a list that is merged, 1 for 128 elements that move", MOST_PATCH_STEPS, "413"),
    LimitRow("bytes of bodies above 32 KiB that are worked on at once", "large_bodies", "429, Retry-After"),
    LimitRow("bytes of bodies above 32 KiB that are worked on at once for one user (not of system:masters)", "large_bodies_of_user", "429, Retry-After"),
    LimitRow("conditions and values in a label or field selector", "selector_terms", "400"),
    LimitRow("permissions in a role: verbs times groups times resources times names", MOST_PERMISSIONS, "422"),
    LimitRow("conditions in a pod about other pods: affinity and spreading", MOST_NEIGHBOUR_RULES, "422"),
    LimitRow("bytes of defaults that a custom object, or a pod by limit ranges, is filled up with", MOST_DEFAULTS, "413"),
    LimitRow("values that the columns of a custom object look at and show, for which text counts by its length", ROW_VALUES, "the columns after that are empty"),
    LimitRow("connections to one webhook; 8 are its own, the others come from 128 for all validating, mutating or conversion webhooks", WEBHOOK_CONNECTIONS, "waits, in turns with other users, for as long as the webhook's timeout"),
    LimitRow("seconds for the conversion webhook of a definition, about all objects of an answer", "conversion_seconds", "500", "60 for a request"),
    LimitRow("seconds that a request waits for expressions and schemas that another process evaluates", int(BACKGROUND_SECONDS), "504, Retry-After", "60 for a request"),
    LimitRow("steps to judge a custom object by its schema; alternatives multiply them", MOST_STEPS, "422"),
    LimitRow("bytes of a stored object", LARGEST_OBJECT, "413", "1.5 MiB (etcd)"),
    LimitRow("seconds in which a client takes nothing of what it is sent", "unread_seconds", "closed"),
    LimitRow("bytes of an answer made ahead of its reader", "piece", "the reader is waited for"),
    LimitRow("bytes of protobuf lists under way, together", "whole_answers", "429, Retry-After"),
    LimitRow("bytes of an error", "status_bytes", "cut short, and says so"),
    LimitRow("characters of warnings (256 each if there are more)", "warnings", "the rest is left out", "4,096"),
    LimitRow("seconds for `/readyz`", "ready_seconds", "500"),
    LimitRow("watches, and streams into pods, at once", "watchers", "429, Retry-After", "shares"),
    LimitRow("watches and streams at once of one user (not of system:masters)", "watchers_of_user", "429, Retry-After"),
    LimitRow("bytes of a message on a WebSocket into a pod", STREAM_MESSAGE, "closed", "32 MiB"),
    LimitRow("bytes of a SPDY frame; of its headers, unpacked, 8 KiB", STREAM_FRAME, "closed", "16 MiB"),
    LimitRow("bytes that a client sends into a pod ahead of it", STREAM_WAITING, "the client is made to wait"),
    LimitRow("streams on one SPDY connection; each forwarded port counts as a watch", STREAMS, "refused"),
    LimitRow("seconds in which a node sends nothing of a log that is not followed, or of `nodes/proxy`", "log_silent_seconds", "the log ends"),
    LimitRow("seconds of a log that is followed", "log_seconds", "the log ends"),
    LimitRow("bytes of a log, or of an answer to `nodes/proxy`", "log_bytes", "the log ends"),
    LimitRow("bytes kept of encoded watch events (for 20 seconds), and of other versions, for the next reader", SHARED_BYTES, "encoded again"),
)  # fmt: skip


def number(row: LimitRow) -> str:
    """Return the number of a row as the documentation prints it, such as "64 KiB" or "1,000"."""
    value = getattr(Limits(), row.limit) if isinstance(row.limit, str) else row.limit
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if "bytes" in row.what and value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:,.10g}"
