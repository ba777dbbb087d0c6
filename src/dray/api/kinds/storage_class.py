"""StorageClass: describes how volumes are provisioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api import names
from dray.api.cells import UNSET
from dray.api.columns import AGE, flag, text
from dray.api.errors import duplicate, invalid, required, too_long
from dray.api.kind import KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named, unique
from dray.api.types import core, storage

_PARAMETERS_MAX = 512
_PARAMETERS_BYTES_MAX = 256 * 1024


_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _name(class_: storage.StorageClass) -> str:
    is_default = class_.metadata.annotations.get(_DEFAULT) == "true"
    return class_.metadata.name + (" (default)" if is_default else "")


KIND = Resource(
    storage.StorageClass,
    namespaced=False,
    short_names=("sc",),
    columns=(
        text("Name", _name, format="name"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", UNSET),
        flag("AllowVolumeExpansion", "allowVolumeExpansion"),
        AGE,
    ),
    rules=KindRules(update=""),
    defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    is_returned_when_deleted=True,
)


def topologies(terms: Sequence[core.TopologySelectorTerm], path: Path) -> Errors:
    """Yield errors in the allowed topologies of a StorageClass, including duplicate terms."""
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        expressions = path / index / "matchLabelExpressions"
        wanted: dict[str, set[str]] = {}
        for position, expression in enumerate(term.matchLabelExpressions):
            here = expressions / position
            if not expression.values:
                yield required(here / "values")
            yield from unique(expression.values, here / "values", str)
            yield from named(expression.key, here / "key", names.qualified_name)
            if expression.key in wanted:
                yield duplicate(here / "key", expression.key)
            wanted[expression.key] = {*expression.values}
        if wanted in seen:
            yield duplicate(expressions, "")
        seen.append(wanted)


def parameters(given: Mapping[str, str], path: Path) -> Errors:
    """Yield errors if a StorageClass has an empty parameter name, too many parameters, or too large ones."""
    if len(given) > _PARAMETERS_MAX:
        yield too_long(path, _PARAMETERS_MAX)
        return
    if "" in given:
        yield invalid(path, "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in given.items()) > _PARAMETERS_BYTES_MAX:
        yield too_long(path, _PARAMETERS_BYTES_MAX)
