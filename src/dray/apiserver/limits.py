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
    LimitRow("connections at the same time", "connections", "closed", "number of open files"),
    LimitRow("seconds for a TLS handshake", "handshake_seconds", "closed", "32"),
    LimitRow("seconds for request line and headers, once begun; and for the first request on a new connection", "head_seconds", "closed", "32"),
    LimitRow("seconds without a request on an open connection", "idle_seconds", "closed", "90"),
    LimitRow("bytes of request line and headers", "head_bytes", "431, closed", "1 MiB"),
    LimitRow("headers of a request", "headers", "431, closed"),
    LimitRow("requests on one connection before the answer to the first", "pipelined", "closed"),
    LimitRow("concurrent requests, not counting watches", "requests", "429, Retry-After", "600 in shares"),
    LimitRow("concurrent requests of one user (not of system:masters)", "requests_of_user", "429, Retry-After", "fair queues"),
    LimitRow("bytes of a body", "body", "413", "3 MiB"),
    LimitRow("seconds for a body to arrive, plus one for each 64 KiB", "body_seconds", "closed", "60"),
    LimitRow("levels of nesting in JSON, YAML and protobuf", "depth", "400", "10,000"),
    LimitRow("values in an object or patch from a client; operations in a patch: 10,000", "values", "413", "10,000 operations"),
    LimitRow("values in the result of a JSON Patch; its copies alone: the same number, and 3 MiB, or 422", "values", "413", "3 MiB of copies"),
    LimitRow("steps to apply a patch: 6 for each copied value or merged list element, 1 for 128 moved elements", MOST_PATCH_STEPS, "413"),
    LimitRow("total bytes of bodies above 32 KiB that are being processed", "large_bodies", "429, Retry-After"),
    LimitRow("total bytes of such bodies of one user (not of system:masters)", "large_bodies_of_user", "429, Retry-After"),
    LimitRow("conditions and values in a label or field selector", "selector_terms", "400"),
    LimitRow("permissions in a role: verbs times groups times resources times names", MOST_PERMISSIONS, "422"),
    LimitRow("conditions in a pod about other pods: affinity and spreading", MOST_NEIGHBOUR_RULES, "422"),
    LimitRow("bytes of defaults that are added to a custom object, or to a pod by limit ranges", MOST_DEFAULTS, "413"),
    LimitRow("values that the printer columns of a custom object read and show; text counts by its length", ROW_VALUES, "further columns are empty"),
    LimitRow("connections to one webhook; 8 are its own, the others come from 128 for all validating, mutating or conversion webhooks", WEBHOOK_CONNECTIONS, "the call waits, taking turns with other users, for at most the webhook's timeout"),
    LimitRow("seconds for the conversion webhook of a definition, for all objects of a response", "conversion_seconds", "500", "60 for a request"),
    LimitRow("seconds that a request waits for expressions and schemas that another process evaluates", int(BACKGROUND_SECONDS), "504, Retry-After", "60 for a request"),
    LimitRow("steps to validate a custom object against its schema; alternatives multiply them", MOST_STEPS, "422"),
    LimitRow("bytes of a stored object", LARGEST_OBJECT, "413", "1.5 MiB (etcd)"),
    LimitRow("seconds in which a client reads nothing of its response", "unread_seconds", "closed"),
    LimitRow("bytes of a response that are produced ahead of its reader", "piece", "the server waits for the reader"),
    LimitRow("bytes of protobuf lists in progress, in total", "whole_answers", "429, Retry-After"),
    LimitRow("bytes of an error", "status_bytes", "truncated, and marked so"),
    LimitRow("characters of warnings (256 each if there are more)", "warnings", "the rest is dropped", "4,096"),
    LimitRow("seconds for `/readyz`", "ready_seconds", "500"),
    LimitRow("concurrent watches and streams into pods", "watchers", "429, Retry-After", "shares"),
    LimitRow("concurrent watches and streams of one user (not of system:masters)", "watchers_of_user", "429, Retry-After"),
    LimitRow("bytes of a message on a WebSocket into a pod", STREAM_MESSAGE, "closed", "32 MiB"),
    LimitRow("bytes of a SPDY frame; of its headers, unpacked, 8 KiB", STREAM_FRAME, "closed", "16 MiB"),
    LimitRow("bytes from a client to a pod that the pod has not read yet", STREAM_WAITING, "the client must wait"),
    LimitRow("streams on one SPDY connection; each forwarded port counts as a watch", STREAMS, "refused"),
    LimitRow("seconds in which a node sends no data for a log without follow, or for `nodes/proxy`", "log_silent_seconds", "the log ends"),
    LimitRow("seconds of a log that is followed", "log_seconds", "the log ends"),
    LimitRow("bytes of a log, or of an answer to `nodes/proxy`", "log_bytes", "the log ends"),
    LimitRow("bytes of encoded watch events (kept for 20 seconds) and of other API versions, cached for the next reader", SHARED_BYTES, "encoded again"),
)  # fmt: skip


def number(row: LimitRow) -> str:
    """Return the number of a row as the documentation prints it, such as "64 KiB" or "1,000"."""
    value = getattr(Limits(), row.limit) if isinstance(row.limit, str) else row.limit
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if "bytes" in row.what and value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:,.10g}"
