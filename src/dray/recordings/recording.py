"""Recording: the objects of a cluster that affect scheduling, written to one file and read back.

Only the fields listed in `KEPT` are recorded, so secrets, environment variables, commands, images, volumes,
annotations, opaque driver parameters and managed fields never leave the cluster. A digest detects edited files. Left
out: reading a cluster (`dray.cli.record`), anonymization (`anonymous`), and changes over time (`history`).
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from dray.api.resources import BY_KIND
from dray.api.types import core, meta, policy, resource, scheduling
from dray.api.wire import Tree, Wire
from dray.recordings.anonymous import without_names
from dray.recordings.rebuilding import rebuilt

VERSION = 1
_GZIP = b"\x1f\x8b"
TYPES: tuple[type[Any], ...] = (
    core.Node,
    resource.ResourceSlice,
    resource.DeviceClass,
    resource.DeviceTaintRule,
    resource.ResourceClaim,
    resource.ResourceClaimTemplate,
    core.Pod,
    scheduling.PodGroup,
    core.Namespace,
    core.ResourceQuota,
    scheduling.PriorityClass,
    policy.PodDisruptionBudget,
)

_META = "name namespace uid labels ownerReferences creationTimestamp deletionTimestamp generation"
_POD = (
    "affinity containers hostNetwork initContainers nodeName nodeSelector overhead preemptionPolicy priority "
    "priorityClassName resourceClaims resources restartPolicy schedulerName schedulingGates schedulingGroup tolerations "
    "topologySpreadConstraints workloadRef"
)
_POD_STATUS = (
    "extendedResourceClaimStatus nodeAllocatableResourceClaimStatuses nominatedNodeName phase resourceClaimStatuses"
)
# Recorded fields by type. Types that are not listed are recorded completely.
_FIELDS: dict[type[Wire], str] = {
    meta.ObjectMeta: _META,
    core.PodSpec: _POD,
    core.PodStatus: _POD_STATUS,
    core.Container: "name ports resources restartPolicy",
    core.ContainerPort: "containerPort hostIP hostPort protocol",
    core.NodeSpec: "taints unschedulable",
    core.NodeStatus: "allocatable capacity conditions declaredFeatures",
    core.NodeCondition: "status type",
    core.NamespaceStatus: "phase",
    resource.DeviceClaim: "constraints requests",
    resource.DeviceAllocationResult: "results",
    resource.ResourceClaimStatus: "allocation reservedFor",
    resource.DeviceClassSpec: "extendedResourceName selectors",
    resource.DeviceTaintRuleStatus: "",
    scheduling.PriorityClass: "apiVersion kind metadata globalDefault preemptionPolicy value",
    scheduling.PodGroupStatus: "resourceClaimStatuses",
    policy.PodDisruptionBudgetStatus: "currentHealthy desiredHealthy disruptionsAllowed expectedPods",
}
KEPT = {type_: frozenset(fields.split()) for type_, fields in _FIELDS.items()}


class RecordingError(ValueError):
    """A file that cannot be used as a recording. The message says why."""


class Recording(msgspec.Struct, frozen=True, tag_field="kind", tag="Recording"):
    """Objects of a cluster at a time. `unread` lists resources that could not be read, by plural name."""

    version: int
    time: str
    source: str
    objects: tuple[Tree, ...]
    digest: str
    anonymous: bool = False
    unread: tuple[str, ...] = ()
    followed: bool = False  # whether lines with later events follow (`history`)

    def typed(self) -> list[Wire]:
        """Return the objects as typed structs."""
        return [typed_object(number, tree) for number, tree in enumerate(self.objects)]


def record(
    objects: Iterable[Wire], *, time: str, source: str, unread: Iterable[str] = (), anonymous: bool = False
) -> Recording:
    """Record objects of the relevant types; other types are left out."""
    kept = [reduced(one) for one in objects if isinstance(one, TYPES)]
    if anonymous:
        kept, source = without_names(kept), ""
    trees = tuple(msgspec.to_builtins(one) for one in kept)
    return Recording(VERSION, time, source, trees, _digest(trees), anonymous, tuple(sorted(unread)))


def reduced(one: Wire) -> Wire:
    """Return a copy of an object with only the recorded fields."""
    return cast(Wire, rebuilt(one, _fields_kept))


def to_bytes(recording: Recording, *, compressed: bool = False) -> bytes:
    """Encode a recording as file content."""
    content = msgspec.json.encode(recording) + b"\n"
    return gzip.compress(content, mtime=0) if compressed else content


def from_bytes(content: bytes) -> Recording:
    """Read a recording, compressed or not. Raises RecordingError."""
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise RecordingError(f"the file is cut off or damaged: {error}") from error
    return header_of(content)


def header_of(content: bytes) -> Recording:
    """Read a recording from a JSON document. Raises RecordingError if it is invalid or was edited."""
    recording = _decoded(content)
    if recording.digest != _digest(recording.objects):
        raise RecordingError(
            "the recording was edited: its digest is not that of its objects; "
            "to try other objects, add them to what is asked"
        )
    return recording


def _fields_kept(type_: type[Wire], name: str, value: Any) -> Any:
    kept = KEPT.get(type_)
    return value if kept is None or name in kept else msgspec.UNSET


def _decoded(content: bytes) -> Recording:
    """Decode a JSON document to a recording without checking its digest. Raises RecordingError."""
    try:
        tree = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = "is cut off or damaged" if content.lstrip()[:1] == b"{" else "is no recording"
        raise RecordingError(f"the file {what}: {error}") from error
    if not isinstance(tree, dict) or tree.get("kind") != "Recording":
        raise RecordingError("the file is no recording: expected an object of kind Recording, as `dray record` writes")
    if tree.get("version") != VERSION:
        raise RecordingError(f"version: {tree.get('version')!r} is not known; this dray reads version {VERSION}")
    try:
        return msgspec.convert(tree, Recording)
    except msgspec.ValidationError as error:
        raise RecordingError(f"the recording was edited: {error}") from error


def _digest(trees: tuple[Tree, ...]) -> str:
    return "sha256:" + hashlib.sha256(msgspec.json.encode(trees)).hexdigest()


def typed_object(number: int, tree: Tree) -> Wire:
    """Convert a recorded object to its type. Raises RecordingError, which names the object by `number`."""
    group = str(tree.get("apiVersion", "")).rpartition("/")[0]
    known = BY_KIND.get((group, str(tree.get("kind", ""))))
    if known is None or known.type not in TYPES:
        raise RecordingError(f"objects[{number}]: no kind {tree.get('kind')} of {tree.get('apiVersion')} is recorded")
    try:
        return cast(Wire, msgspec.convert(tree, known.type))
    except msgspec.ValidationError as error:
        raise RecordingError(f"objects[{number}]: {error}") from error
