"""CustomResourceDefinition: adds a kind to the API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.api import names, paths
from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, TableColumn
from dray.api.custom import jsonpath
from dray.api.custom.kinds import schema_of
from dray.api.custom.structure import SchemaNode, compiled
from dray.api.errors import duplicate, forbidden, invalid, required, shown, too_many
from dray.api.kind import API_EXTENSIONS, STATUS, KindRules, Resource
from dray.api.paths import METADATA, SPEC, Path
from dray.api.rules import Errors, checked, named, one_of, required_one_of, unchanged
from dray.api.schema import EXTENSIONS
from dray.api.trees import fill
from dray.api.types import apiextensions
from dray.api.validation.metadata import metadata
from dray.api.validation.schemas import DEEPEST, depth, schema
from dray.api.validation.webhooks import review_versions, webhook_client
from dray.api.wire import Tree
from dray.api.written import as_go

if TYPE_CHECKING:
    from dray.api.validation.context import Context


Definition = apiextensions.CustomResourceDefinition
DefinitionVersion = apiextensions.CustomResourceDefinitionVersion
APPROVED = "api-approved.kubernetes.io"
_REVIEWS = "https://github.com/kubernetes/enhancements/pull/1111"
_PROTECTED = ("k8s.io", "kubernetes.io")
_SCOPES = ("Cluster", "Namespaced")
_SELECTABLE_MAX = 8
_SELECTABLE_TYPES = ("boolean", "integer", "string")
_WARNING_MAX = 256
_DOTTED = "must be a simple json path starting with ."
# Parts of versions, and their names in errors if all versions have the same content.
_PARTS = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def _defaults(tree: Tree) -> None:
    """Add the default names and the conversion strategy None."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    fill(spec.setdefault("conversion", {}), "strategy", "None")


def _create(tree: Tree) -> None:
    versions = (tree.get("spec") or {}).get("versions") or ()
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    tree["status"] = {"storedVersions": stored} if stored else {}


def _keep_versions(tree: Tree, old: apiextensions.CustomResourceDefinition) -> None:
    """Keep the stored versions in the status, and add the current storage version."""
    stored = list(old.status.storedVersions or ())
    for version in (tree.get("spec") or {}).get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version.get("name") or "")
    tree.setdefault("status", {})["storedVersions"] = stored


KIND = Resource(
    apiextensions.CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    categories=API_EXTENSIONS,
    subresources=STATUS,
    columns=(
        NAME,
        TableColumn(
            "Created At", lambda definition, now: definition.metadata.creationTimestamp or UNKNOWN, type="date"
        ),
    ),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules(
        "custom_resource_definition.create_definition",
        "custom_resource_definition.update_definition",
        name=None,
        any_finalizer=True,
    ),
    defaults={"spec.conversion.webhook.clientConfig.service.port": 443},
    more_defaults=_defaults,
    on_create=_create,
    on_update={"": _keep_versions},
)


def create_definition(definition: Definition, context: Context) -> Errors:
    """Yield errors in a new CustomResourceDefinition."""

    def name_check(text: str) -> Sequence[str]:
        found = list(names.subdomain(text))
        if text != f"{definition.spec.names.plural}.{definition.spec.group}":
            found.append('must be spec.names.plural+"."+spec.group')
        return found

    yield from metadata(definition.metadata, namespaced=False, name_check=name_check, any_finalizer=True)
    yield from _spec(definition.spec, context)
    yield from _stored_versions(definition)
    yield from _approval(definition)
    yield from _preserving(definition.spec)


def approval(definition: Definition) -> tuple[str, str] | None:
    """Return the approval state of a definition in a protected group as reason and message; None for other groups."""
    group, said = definition.spec.group, definition.metadata.annotations.get(APPROVED, "")
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        return None
    if not said:
        text = f'protected groups must have approval annotation "{APPROVED}", see {_REVIEWS}'
        return "MissingAnnotation", text
    if said.startswith("unapproved"):
        return "UnapprovedAnnotation", f"not approved: {shown(said)}"
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s]", said):
        return "ApprovedAnnotation", f"approved in {said}"
    text = 'protected groups must have approval annotation with either a URL or a reason starting with "unapproved"'
    return "InvalidAnnotation", f"{text}, see {_REVIEWS}"


def _approval(definition: Definition, old: Definition | None = None) -> Errors:
    """Yield an error if a definition in a protected group lacks a valid approval annotation.

    Yields nothing if `old`, the replaced definition, has the same approval state. An annotation `unapproved…` is
    valid.
    """
    reason, text = approval(definition) or ("", "")
    before = approval(old) if old is not None else None
    if before is not None and before[0] == reason:
        return
    path = METADATA / "annotations" % APPROVED
    if reason == "MissingAnnotation":
        yield required(path, text)
    elif reason == "InvalidAnnotation":
        yield invalid(path, definition.metadata.annotations[APPROVED], text)


def update_definition(definition: Definition, old: Definition, context: Context) -> Errors:
    """Yield errors in an update of a CustomResourceDefinition, including changes of immutable fields.

    Scope and kind are immutable once the definition is established. An unchanged spec is not validated again.
    """
    if definition.spec != old.spec:  # an unchanged spec is not validated again, because it can take long
        yield from _spec(definition.spec, context)
    spec, before = definition.spec, old.spec
    yield from unchanged(spec.group, before.group, SPEC / "group", spec.group)
    yield from unchanged(spec.names.plural, before.names.plural, SPEC / "names" / "plural", spec.names.plural)
    if any(c.type == "Established" and c.status == "True" for c in old.status.conditions or ()):
        yield from unchanged(spec.scope, before.scope, SPEC / "scope", spec.scope)
        yield from unchanged(spec.names.kind, before.names.kind, SPEC / "names" / "kind", spec.names.kind)
    yield from _stored_versions(definition)
    yield from _approval(definition, old)
    if not before.preserveUnknownFields:
        yield from _preserving(spec)


def _preserving(spec: apiextensions.CustomResourceDefinitionSpec) -> Errors:
    if spec.preserveUnknownFields:
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid(SPEC / "preserveUnknownFields", True, text)


def _stored_versions(definition: Definition) -> Errors:
    path, stored = paths.STATUS / "storedVersions", definition.status.storedVersions
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
    yield from required_one_of(spec.scope, _SCOPES, SPEC / "scope")
    if spec.preserveUnknownFields and any(_has_default(schema_of(version)) for version in spec.versions):
        text = "must be false in order to use defaults in the schema"
        yield invalid(SPEC / "preserveUnknownFields", True, text)
    shared = _shared(spec.versions)
    yield from _versions(spec.versions, shared, context)
    if spec.versions and spec.versions[0].name:  # spec.version in older definitions
        yield from named(spec.versions[0].name, SPEC / "version", names.label_1035)
    yield from checked(f"{EXTENSIONS}CustomResourceDefinitionNames", spec.names, SPEC / "names")
    for field, place in shared.items():  # Kubernetes reports it once, with a path at the top level
        yield from _judged(field, spec.versions[0], SPEC / place, context, _has_status(*spec.versions))
    if spec.conversion is not None:
        if spec.preserveUnknownFields and spec.conversion.strategy != "None":
            text = "must be None if spec.preserveUnknownFields is true"
            yield invalid(SPEC / "conversion" / "strategy", spec.conversion.strategy, text)
        yield from _conversion(spec.conversion, SPEC / "conversion")


def _has_default(tree: Any) -> bool:
    return depth(tree) <= DEEPEST and compiled(tree).has_defaults


def other_list_kind(value: apiextensions.CustomResourceDefinitionNames, path: Path) -> Errors:
    """Yield an error if objects and lists of objects have the same kind; nothing if the kind is empty."""
    if value.kind and value.kind == value.listKind:
        yield invalid(path / "listKind", value.listKind, "kind and listKind may not be the same")


def _conversion(conversion: apiextensions.CustomResourceConversion, path: Path) -> Errors:
    yield from one_of(conversion.strategy, ("None", "Webhook"), path / "strategy")
    config = conversion.webhook.clientConfig if conversion.webhook is not None else None
    versions = conversion.webhook.conversionReviewVersions if conversion.webhook is not None else ()
    if conversion.strategy == "Webhook":
        if config is None:
            yield required(path / "webhookClientConfig", "required when strategy is set to Webhook")
        else:
            yield from webhook_client(config, path / "webhookClientConfig")
        here = path / "conversionReviewVersions"
        yield from review_versions(versions, here) if versions else [required(here)]
        return
    for name, given in (("webhookClientConfig", config), ("conversionReviewVersions", versions)):
        if given:
            yield forbidden(path / name, "should not be set when strategy is not set to Webhook")


def _shared(versions: Sequence[DefinitionVersion]) -> dict[str, str]:
    """Return the parts that are equal in all versions, with their names in errors."""
    if not versions:
        return {}
    first = versions[0]
    return {
        part: shared
        for part, shared in _PARTS.items()
        if getattr(first, part) and all(getattr(version, part) == getattr(first, part) for version in versions)
    }


def _has_status(*versions: DefinitionVersion) -> bool:
    return any(version.subresources is not None and version.subresources.status is not None for version in versions)


def _versions(versions: Sequence[DefinitionVersion], shared: dict[str, str], context: Context) -> Errors:
    path = SPEC / "versions"
    found = [version.name for version in versions]
    for index, version in enumerate(versions):
        if version.schema is None or version.schema.openAPIV3Schema is None:
            yield required(path / index / "schema" / "openAPIV3Schema")
    for index, version in enumerate(versions):
        yield from named(version.name, path / index / "name", names.label_1035)
        yield from _deprecation(version, path / index)
        for part in _PARTS:
            if part not in shared and getattr(version, part):
                yield from _judged(part, version, path / index / part, context, _has_status(version))
    if len(set(found)) < len(found):
        yield invalid(path, _summary(versions, shared), "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        yield invalid(path, _summary(versions, shared), "must have exactly one version marked as storage version")


def _judged(part: str, version: DefinitionVersion, path: Path, context: Context, has_status: bool) -> Errors:
    """Yield errors in one part of a version; `path` is where they are reported.

    `part` is the name of a field of the version. A missing part has no errors.
    """
    if part == "schema":
        tree = version.schema.openAPIV3Schema if version.schema is not None else None
        if tree is not None:
            yield from schema(tree, path / "openAPIV3Schema", context, has_status)
    elif part == "subresources":
        if version.subresources is not None:
            yield from _subresources(version.subresources, path)
    elif part == "additionalPrinterColumns":
        for index, column in enumerate(version.additionalPrinterColumns):
            yield from checked(f"{EXTENSIONS}CustomResourceColumnDefinition", column, path / index)
    else:
        yield from _selectable(version.selectableFields, path, version)


def _summary(versions: Sequence[DefinitionVersion], shared: Mapping[str, str]) -> list[msgspec.Raw]:
    """Return the versions as Kubernetes prints them, without schemas; `shared` parts are null."""
    trees = [
        {
            "Name": version.name,
            "Served": version.served,
            "Storage": version.storage,
            "Deprecated": version.deprecated,
            "DeprecationWarning": version.deprecationWarning,
            "Schema": None,
            **{f"{part[0].upper()}{part[1:]}": _part(version, part, shared) for part in _PARTS if part != "schema"},
        }
        for version in versions
    ]
    return [msgspec.Raw(msgspec.json.encode(tree)) for tree in trees]


def _part(version: DefinitionVersion, part: str, shared: Mapping[str, str]) -> Any:
    return None if part in shared else as_go(getattr(version, part)) or None


def _deprecation(version: DefinitionVersion, path: Path) -> Errors:
    warning = version.deprecationWarning
    here = path / "deprecationWarning"
    if warning is None:
        return
    if not version.deprecated:
        yield invalid(here, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _WARNING_MAX:
        yield invalid(here, warning, f"must be <= {_WARNING_MAX} characters long")
    if not warning:
        yield invalid(here, warning, "must not be an empty string")
    found = next((index for index, char in enumerate(warning) if not char.isprintable()), None)
    if found is not None:
        text = f"non-printable character found at index {len(warning[:found].encode())}"
        yield invalid(here, warning, f"must only contain printable UTF-8 characters; {text}")


def _subresources(value: apiextensions.CustomResourceSubresources, path: Path) -> Errors:
    if value.scale is None:
        return
    scale, here = value.scale, path / "scale"
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text = getattr(scale, field)
        if not text:
            yield required(here / field)
        else:
            yield from _simple(text, (root,), root, here / field)
    if scale.labelSelectorPath:
        yield from _simple(
            scale.labelSelectorPath, (".spec", ".status"), "either .spec or .status", here / "labelSelectorPath"
        )


def _simple(text: str, roots: tuple[str, ...], shown: str, path: Path) -> Errors:
    if not text.startswith("."):
        yield invalid(path, text, _DOTTED)
    elif not text.startswith(tuple(f"{root}." for root in roots)):
        yield invalid(path, text, f"should be a json path under {shown}")
    elif not jsonpath.is_simple(text):
        yield invalid(path, text, "should be a path of names, since it is written to")


def dotted(text: str, path: Path) -> Errors:
    """Yield an error if a path does not start at the root of an object, that is with a dot."""
    if not text.startswith("."):
        yield invalid(path, text, _DOTTED)


def _selectable(fields: Sequence[apiextensions.SelectableField], path: Path, version: DefinitionVersion) -> Errors:
    seen: set[str] = set()
    tree = schema_of(version)
    root = compiled(tree) if depth(tree) <= DEEPEST else None
    for index, field in enumerate(fields):
        here, text = path / index / "jsonPath", field.jsonPath
        if not text:
            yield required(here)
        elif not jsonpath.is_simple(text):
            yield invalid(here, text, "is an invalid path: only fields of objects can be selected by")
        elif root is not None:
            yield from _selected(root, text, here, seen)
    if len(seen) > _SELECTABLE_MAX:
        yield too_many(path, len(seen), _SELECTABLE_MAX)


def _selected(root: SchemaNode, text: str, path: Path, seen: set[str]) -> Errors:
    node: SchemaNode | None = root
    for name in jsonpath.simple(text):
        node = node.properties.get(name) if node is not None else None
    if node is None:
        yield invalid(path, text, "is an invalid path: does not refer to a valid field")
        return
    if text.startswith(".metadata."):
        yield invalid(path, text, "must not point to fields in metadata")
    if node.type not in _SELECTABLE_TYPES:
        text_ = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        yield invalid(path, text, text_)
    if text in seen:
        yield duplicate(path, text)
    seen.add(text)
