"""CustomResourceDefinitions: names, versions, what each version offers, and what may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dray.api import names
from dray.api.custom import jsonpath
from dray.api.custom.kinds import schema_of
from dray.api.custom.structure import Node, compiled
from dray.api.errors import duplicate, invalid, required, too_many, unsupported
from dray.api.types import apiextensions
from dray.api.validation.access import webhook_client
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, named, unchanged
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.paths import METADATA, SPEC, STATUS, Path
from dray.api.validation.schemas import DEEPEST, depth, schema

Definition = apiextensions.CustomResourceDefinition
Version = apiextensions.CustomResourceDefinitionVersion
T = TypeVar("T")

APPROVED = "api-approved.kubernetes.io"
_REVIEWS = "https://github.com/kubernetes/enhancements/pull/1111"
_PROTECTED = ("k8s.io", "kubernetes.io")
_SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_MAX = 8
_SELECTABLE_TYPES = ("boolean", "integer", "string")
_WARNING_MAX = 256


def create_definition(definition: Definition, context: Context) -> Errors:
    def name_check(text: str) -> Sequence[str]:
        found = list(names.subdomain(text))
        if text != f"{definition.spec.names.plural}.{definition.spec.group}":
            found.append('must be spec.names.plural+"."+spec.group')
        return found

    yield from metadata(definition.metadata, namespaced=False, name_check=name_check)
    yield from _spec(definition.spec, context)
    yield from _stored_versions(definition)
    yield from _approval(definition)


def _approval(definition: Definition) -> Errors:
    """Groups of Kubernetes itself need the word of its reviewers, or the author's that there is none."""
    group = definition.spec.group
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        return
    path, said = METADATA / "annotations" % APPROVED, definition.metadata.annotations.get(APPROVED, "")
    if not said:
        text = f'protected groups must have approval annotation "{APPROVED}", see {_REVIEWS}'
        yield required(path, text)
    elif not said.startswith(("unapproved", "https://", "http://")):
        text = 'protected groups must have approval annotation with either a URL or a reason starting with "unapproved"'
        yield invalid(path, said, f"{text}, see {_REVIEWS}")


def update_definition(definition: Definition, old: Definition, context: Context) -> Errors:
    yield from metadata_update(definition.metadata, old.metadata)
    if definition.spec != old.spec:  # what is there already is not judged again, however long that takes
        yield from _spec(definition.spec, context)
    spec, before = definition.spec, old.spec
    yield from unchanged(spec.group, before.group, SPEC / "group", spec.group)
    yield from unchanged(spec.names.plural, before.names.plural, SPEC / "names" / "plural", spec.names.plural)
    if any(c.type == "Established" and c.status == "True" for c in old.status.conditions or ()):
        yield from unchanged(spec.scope, before.scope, SPEC / "scope", spec.scope)
        yield from unchanged(spec.names.kind, before.names.kind, SPEC / "names" / "kind", spec.names.kind)
    yield from _stored_versions(definition)


def update_definition_status(definition: Definition, old: Definition, context: Context) -> Errors:
    yield from metadata_update(definition.metadata, old.metadata)
    yield from _stored_versions(definition)


def _stored_versions(definition: Definition) -> Errors:
    path, stored = STATUS / "storedVersions", definition.status.storedVersions
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
    known = {version.name for version in definition.spec.versions}
    for index, name in enumerate(stored or ()):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield invalid(path / index, name, text)


def _spec(spec: apiextensions.CustomResourceDefinitionSpec, context: Context) -> Errors:
    if not spec.group:
        yield required(SPEC / "group")
    elif faults := names.subdomain(spec.group):
        yield invalid(SPEC / "group", spec.group, ",".join(faults))
    elif "." not in spec.group:
        yield invalid(SPEC / "group", spec.group, "should be a domain with at least one dot")
    if not spec.scope:
        yield required(SPEC / "scope")
    elif spec.scope not in _SCOPES:
        yield unsupported(SPEC / "scope", spec.scope, _SCOPES)
    yield from _versions(spec.versions, context)
    if spec.preserveUnknownFields:
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid(SPEC / "preserveUnknownFields", True, text)
    yield from _names(spec.names, SPEC / "names")
    if spec.conversion is not None:
        yield from _conversion(spec.conversion, SPEC / "conversion")


def _names(value: apiextensions.CustomResourceDefinitionNames, path: Path) -> Errors:
    for field in ("plural", "singular"):
        text = getattr(value, field)
        if not text:
            yield required(path / field)
        else:
            yield from _lower(text, path / field, names.label_1035, text)
    for field in ("kind", "listKind"):
        text = getattr(value, field)
        if not text:
            yield required(path / field)
        elif faults := names.label_1035(text.lower()):
            yield invalid(path / field, text, f"may have mixed case, but should otherwise match: {','.join(faults)}")
    for field in ("shortNames", "categories"):
        for index, text in enumerate(getattr(value, field)):
            yield from _lower(text, path / field / index, names.label_1035, text)
    if value.kind and value.kind == value.listKind:
        yield invalid(path / "listKind", value.listKind, "kind and listKind may not be the same")


def _lower(text: str, path: Path, check: names.Check, shown: str) -> Errors:
    if faults := check(text):
        yield invalid(path, shown, ",".join(faults))


def _conversion(conversion: apiextensions.CustomResourceConversion, path: Path) -> Errors:
    if conversion.strategy not in ("None", "Webhook"):
        yield unsupported(path / "strategy", conversion.strategy, ("None", "Webhook"))
    elif conversion.strategy == "None":
        if conversion.webhook is not None:
            yield invalid(path / "webhook", "", "should not be set when strategy is not set to Webhook")
    elif conversion.webhook is None or conversion.webhook.clientConfig is None:
        yield required(path / "webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from webhook_client(conversion.webhook.clientConfig, path / "webhookClientConfig")
        versions = conversion.webhook.conversionReviewVersions
        if not versions:
            yield required(path / "conversionReviewVersions")
        elif "v1" not in versions:
            text = "must include at least one of v1, v1beta1"
            yield invalid(path / "conversionReviewVersions", list(versions), text)


# Versions


def _versions(versions: Sequence[Version], context: Context) -> Errors:
    path = SPEC / "versions"
    found = [version.name for version in versions]
    for index, version in enumerate(versions):
        yield from named(version.name, path / index / "name", names.label_1035)
        yield from _deprecation(version, path / index)
    if len(set(found)) < len(found):
        yield invalid(path, _summary(versions), "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        yield invalid(path, _summary(versions), "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        if version.schema is None or version.schema.openAPIV3Schema is None:
            yield required(path / index / "schema" / "openAPIV3Schema")
    judged: list[tuple[str, str, Callable[[Any, Path, Version], Errors]]] = [
        ("schema", "validation", lambda value, at, _: _schema(value, at, context)),
        ("subresources", "subresources", lambda value, at, version: _subresources(value, at)),
        ("additionalPrinterColumns", "additionalPrinterColumns", lambda value, at, _: _columns(value, at)),
        ("selectableFields", "selectableFields", _selectable),
    ]
    for field, shared, judge in judged:
        values = [getattr(version, field) for version in versions]
        if not values:
            continue
        if all(value == values[0] for value in values):  # Kubernetes tells of it once, as if it stood at the top
            if values[0]:
                yield from judge(values[0], SPEC / shared, versions[0])
            continue
        for index, value in enumerate(values):
            if value:
                yield from judge(value, path / index / field, versions[index])


def _summary(versions: Sequence[Version]) -> list[Any]:
    return [{"name": v.name, "served": v.served, "storage": v.storage} for v in versions]


def _deprecation(version: Version, path: Path) -> Errors:
    warning = version.deprecationWarning
    if warning is None:
        return
    if not version.deprecated:
        yield invalid(path / "deprecationWarning", warning, "can only be set for deprecated versions")
    if not warning:
        yield invalid(path / "deprecationWarning", warning, "must not be empty")
    elif len(warning) > _WARNING_MAX or not warning.isprintable():
        text = f"must be printable UTF-8 of at most {_WARNING_MAX} characters"
        yield invalid(path / "deprecationWarning", warning, text)


def _schema(value: apiextensions.CustomResourceValidation, path: Path, context: Context) -> Errors:
    if value.openAPIV3Schema is not None:
        yield from schema(value.openAPIV3Schema, path / "openAPIV3Schema", context)


def _subresources(value: apiextensions.CustomResourceSubresources, path: Path) -> Errors:
    if value.scale is None:
        return
    scale, here = value.scale, path / "scale"
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text = getattr(scale, field)
        if not text:
            yield required(here / field, f"should be a json path under {root}")
        else:
            yield from _simple(text, (root,), here / field)
    if scale.labelSelectorPath:
        yield from _simple(scale.labelSelectorPath, (".spec", ".status"), here / "labelSelectorPath")


def _simple(text: str, roots: tuple[str, ...], path: Path) -> Errors:
    if not jsonpath.is_simple(text):
        yield invalid(path, text, "should be a simple json path")
    elif not text.startswith(tuple(f"{root}." for root in roots)):
        yield invalid(path, text, f"should be a json path under {' or '.join(roots)}")


def _columns(columns: Sequence[apiextensions.CustomResourceColumnDefinition], path: Path) -> Errors:
    for index, column in enumerate(columns):
        here = path / index
        if not column.name:
            yield required(here / "name")
        if not column.type:
            yield required(here / "type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column.type not in _COLUMN_TYPES:
            yield invalid(here / "type", column.type, f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.format and column.format not in _COLUMN_FORMATS:
            yield invalid(here / "format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.jsonPath:
            yield required(here / "jsonPath")
        else:
            yield from _path(column.jsonPath, here / "jsonPath")


def _path(text: str, path: Path) -> Errors:
    try:
        jsonpath.parse(text)
    except jsonpath.PathError as error:
        yield invalid(path, text, f"the jsonPath is not valid: {error}")


def _selectable(fields: Sequence[apiextensions.SelectableField], path: Path, version: Version) -> Errors:
    if len(fields) > _SELECTABLE_MAX:
        yield too_many(path, len(fields), _SELECTABLE_MAX)
    seen: set[str] = set()
    tree = schema_of(version)
    root = compiled(tree) if depth(tree) <= DEEPEST else None
    for index, field in enumerate(fields):
        here = path / index / "jsonPath"
        if not field.jsonPath:
            yield required(here)
            continue
        if field.jsonPath in seen:
            yield duplicate(here, field.jsonPath)
        seen.add(field.jsonPath)
        if not jsonpath.is_simple(field.jsonPath):
            yield invalid(here, field.jsonPath, "is an invalid path: only fields of objects can be selected by")
        elif field.jsonPath.startswith(".metadata."):
            yield invalid(here, field.jsonPath, "must not point to fields in metadata")
        elif root is not None:
            yield from _selected(root, field.jsonPath, here)


def _selected(root: Node, text: str, path: Path) -> Errors:
    node: Node | None = root
    for name in jsonpath.simple(text):
        node = node.properties.get(name) if node is not None else None
    if node is None:
        yield invalid(path, text, "is an invalid path: does not refer to a valid field")
    elif node.type not in _SELECTABLE_TYPES:
        text_ = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        yield invalid(path, text, text_)
