"""Anonymization of objects: each user-given name is replaced by the same number everywhere.

The numbers follow the order of the names, so sorting by name gives the same order, and a name cannot be guessed from
its number as it could from a hash. Names of drivers and classes, keys of labels and taints, attributes, capacities,
expressions, and names of requests and devices are kept, because selectors use them. No I/O.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec

from dray.api.types import core, meta, resource, scheduling
from dray.api.wire import Wire
from dray.recordings.rebuilding import rebuilt

# Fields by type that contain a name, several names, or a mapping to names.
_FIELDS: dict[type[Wire], str] = {
    meta.ObjectMeta: "name namespace uid labels",
    meta.OwnerReference: "name uid",
    meta.LabelSelector: "matchLabels",
    meta.LabelSelectorRequirement: "values",
    core.PodSpec: "nodeName nodeSelector priorityClassName schedulerName",
    core.PodStatus: "nominatedNodeName",
    core.Container: "name",
    core.ContainerPort: "hostIP",
    core.ContainerExtendedResourceRequest: "containerName",
    core.NodeAllocatableResourceClaimStatus: "containers resourceClaimName",
    core.NodeSelectorRequirement: "values",
    core.PodAffinityTerm: "namespaces",
    core.PodExtendedResourceClaimStatus: "resourceClaimName",
    core.PodResourceClaim: "name podGroupResourceClaim resourceClaimName resourceClaimTemplateName",
    core.PodResourceClaimStatus: "name resourceClaimName",
    core.PodSchedulingGate: "name",
    core.PodSchedulingGroup: "podGroupName",
    core.ResourceClaim: "name",
    core.ScopedResourceSelectorRequirement: "values",
    core.Taint: "value",
    core.Toleration: "value",
    core.WorkloadReference: "name podGroupName",
    resource.Device: "nodeName",
    resource.DeviceRequestAllocationResult: "pool",
    resource.DeviceTaint: "value",
    resource.DeviceTaintSelector: "pool",
    resource.DeviceToleration: "value",
    resource.ResourceClaimConsumerReference: "name uid",
    resource.ResourcePool: "name",
    resource.ResourceSliceSpec: "nodeName",
    scheduling.PodGroupResourceClaim: "name resourceClaimName resourceClaimTemplateName",
    scheduling.PodGroupResourceClaimStatus: "name resourceClaimName",
    scheduling.PodGroupSpec: "parentCompositePodGroupName priorityClassName",
    scheduling.WorkloadReference: "templateName workloadName",
}
_NAMES = {type_: frozenset(fields.split()) for type_, fields in _FIELDS.items()}
_WORD = re.compile(r"[A-Za-z0-9._-]+")
_PARTS = re.compile(r"[._-]")
_FRACTION = 9  # number of digits added when a fraction must grow
# Words common to all clusters reveal nothing.
_PUBLIC = frozenset(
    [
        "default",
        "default-scheduler",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "linux",
        "windows",
        "amd64",
        "arm64",
        "true",
        "false",
        "system-node-critical",
        "system-cluster-critical",
        "0.0.0.0",
    ]
)


class Aliases:
    """Numbers for names, in the order of the names, also for names added later.

    A name after all others gets the next number; a name between two others gets a fraction.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = sorted({*names})
        width = len(str(len(self._names)))
        self._aliases = [f"x{number:0{width}}" for number in range(len(self._names))]
        self._of = dict(zip(self._names, self._aliases, strict=True))
        self._later = 0

    def __call__(self, name: str) -> str:
        """Return the alias of a name, creating it if needed."""
        if name not in self._of:
            self._insert(name)
        return self._of[name]

    def _insert(self, name: str) -> None:
        at = bisect(self._names, name)
        if at == len(self._names):
            self._later += 1
            alias = f"y{self._later:09}"
        else:
            alias = _between(self._aliases[at - 1] if at else "w", self._aliases[at])
        self._names.insert(at, name)
        self._aliases.insert(at, alias)
        self._of[name] = alias


def _between(low: str, high: str) -> str:
    """Return an alias between two others: the lower number with a fraction of as many digits as needed.

    Aliases have the form NUMBER-FRACTION.
    """
    number, _, after = low.partition("-")
    other, _, before = high.partition("-")
    width = _FRACTION
    while True:
        floor = int(after.ljust(width, "0"))
        ceiling = int(before.ljust(width, "0")) if other == number else 10**width
        if ceiling - floor > 1:
            step = min((ceiling - floor) // 2, 10 ** (width - _FRACTION + 3))
            return f"{number}-{floor + step:0{width}}"
        width += _FRACTION


def without_names(objects: Iterable[Wire]) -> list[Wire]:
    """Return the objects with names replaced by numbers."""
    known = [*objects]
    aliases = Aliases(names_in(known))
    return [renamed(one, aliases) for one in known]


def names_in(objects: Iterable[Wire]) -> set[str]:
    """Return the user-given names in the objects."""
    names: set[str] = set()

    def noted(name: str) -> str:
        names.add(name)
        return name

    for one in objects:
        renamed(one, noted)
    return names


def names_left(objects: Iterable[Wire], hidden: object) -> list[str]:
    """Return names and namespaces of objects that still occur in anonymized data, as words or parts of words."""
    named = [cast(Any, one).metadata for one in objects if not isinstance(one, resource.DeviceClass)]
    names = {name for meta in named for name in (meta.name, meta.namespace) if name and name not in _PUBLIC}
    words = {*_WORD.findall(msgspec.json.encode(hidden).decode())}
    return sorted({part for word in words for part in _parts(word) if part in names})


def _parts(word: str) -> Iterator[str]:
    """Yield a word, and all its parts between dots, dashes and underscores.

    A part may itself contain separators.
    """
    cuts = [-1, *(found.start() for found in _PARTS.finditer(word)), len(word)]
    for at, start in enumerate(cuts):
        yield from (word[start + 1 : end] for end in cuts[at + 1 :])


def renamed(one: Wire, alias: Callable[[str], str]) -> Wire:
    """Return a copy of an object with its names replaced by aliases."""
    stays = frozenset({one.metadata.name}) if isinstance(one, resource.DeviceClass) else frozenset()

    def word(text: str) -> str:
        return text if not text or text in _PUBLIC or text in stays or text.isdigit() else alias(text)

    def change(type_: type[Wire], name: str, value: Any) -> Any:
        if name not in _NAMES.get(type_, ()) or not value:
            return value
        if isinstance(value, str):
            return word(value)
        if isinstance(value, tuple):
            return tuple(word(text) for text in value)
        return {key: word(text) for key, text in value.items()}

    return cast(Wire, rebuilt(one, change))
