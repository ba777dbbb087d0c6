"""Description of a kind; each module in `dray.api.kinds` contains one.

`dray.api.resources` is the registry of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from dray.api import names
from dray.api.columns import AGE, NAME, TableColumn
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.conversion import WorkloadLookup
    from dray.api.custom.kinds import CustomKind
    from dray.api.gates import FeatureGates
    from dray.api.needs import KnownValues

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
READ_ONLY = ("get", "list")
ALL = ("all",)  # the category that `kubectl get all` shows
API_EXTENSIONS = ("api-extensions",)
STATUS = ("status",)
SCALED = ("scale", "status")

DRA = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
STORAGE = "storage.k8s.io"
NETWORKING = "networking.k8s.io"
FLOWCONTROL = "flowcontrol.apiserver.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"
REGISTRATION = "apiregistration.k8s.io"
METRICS = "metrics.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
GROUP_VERSIONS = ("v1beta1", "v1alpha3", "v1alpha1")

NAME_AND_AGE = (NAME, AGE)
EMPTY: Mapping[str, Any] = MappingProxyType({})
FROM_TYPE = "*"  # stands for the group, kind or version of the stored type
NOW = object()  # as a default value: the time of the request

UpdateHook: TypeAlias = Callable[[Tree, Any], None]
Renames: TypeAlias = tuple[tuple[str, str], ...]  # (pattern of a path, replacement)
# Converts a tree to the stored version. Gets the stored object that an update replaces, and a lookup of Workloads.
ToStored: TypeAlias = "Callable[[Tree, Wire | None, WorkloadLookup | None], None]"

DRA_DEPRECATED = {"v1beta1": "v1.35+, unavailable in v1.38+", "v1beta2": "v1.36+, unavailable in v1.39+"}
UNUSED = "is stored, but no part of dray acts on it"

# Schema packages of groups that are not part of io.k8s.api.
_PACKAGES = {
    EXTENSIONS: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    REGISTRATION: "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    METRICS: "io.k8s.metrics.pkg.apis.metrics",
}


CHANGES_FIRST: tuple[Literal["changes", "rules"], ...] = ("changes", "rules")


class KindRules(NamedTuple):
    """Validation functions of a kind, called after the validation of metadata.

    Each function is named `module.function`, in the file of the kind or in `dray.api.validation`, and loaded with the
    first object, because clients do not validate. The steps of the kind's message in the schema table are performed
    after them.
    """

    create: str = ""
    update: str | None = None  # None: updates are validated like new objects, including the steps
    name: names.NameCheck | None = names.subdomain  # None: the function validates the metadata itself
    # Order of validation of an update, as in Kubernetes: changes of metadata, all metadata, rules.
    order: tuple[Literal["changes", "last", "metadata", "rules"], ...] = CHANGES_FIRST
    last: str = ""  # function that validates changes of an update, at the position of "last" in `order`
    any_finalizer: bool = False  # finalizers without a domain are permitted
    subresources: Mapping[str, str] = EMPTY


def plural_of(noun: str) -> str:
    """Return the English plural of a kind.

    >>> [plural_of(kind) for kind in ("pod", "ingress", "networkpolicy")]
    ['pods', 'ingresses', 'networkpolicies']
    """
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # fast, because every request uses it several times
class Resource:
    """One kind of the API in one group, with everything that is specific to it."""

    type: type[Wire]
    group: str = FROM_TYPE
    kind: str = FROM_TYPE
    plural: str = ""  # empty: the English plural of the kind
    versions: tuple[str, ...] = ()  # in order of preference; empty: only the stored one
    stored: str = FROM_TYPE
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    gate: str | None = None  # feature gate without which the kind is not served
    alias_of: Resource | None = None  # kind whose stored objects this group serves too (events)
    custom: CustomKind | None = None  # the definition's content; None for built-in kinds
    singular: str = ""
    inert: bool = False  # dray does not act on objects of this kind; creating one returns a warning
    # Defaults: values by path (`dray.api.places`), and a function for defaults that depend on other fields.
    defaults: Mapping[str, object] = field(default_factory=dict)
    more_defaults: Callable[[Tree], None] | None = None
    # Set or restricted by the server (`dray.api.strategy`).
    generation: tuple[str, ...] | None = None  # fields whose changes are counted; None: no generation
    is_steered_by_annotations: bool = False  # changes of annotations also count for the generation
    has_status_at_creation: bool = False
    status_writes_metadata: bool = False  # /status can change metadata: kubelets annotate nodes, controllers mark pods
    conditional: tuple[str, ...] = ()  # versions in which an update must contain the resourceVersion
    is_created_by_update: bool = False  # an update of a missing object creates it
    is_returned_when_deleted: bool = False  # a deletion returns the object instead of a Status
    keeps_dependents: bool = False  # deletion orphans dependents by default, as before the garbage collector existed
    guards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # feature gate → paths of its fields
    on_create: Callable[[Tree], None] | None = None
    on_update: Mapping[str, UpdateHook] = field(default_factory=dict)  # by subresource; "" for the object itself
    settles: Callable[[Any, Any, FeatureGates], bool] | None = None  # whether `on_update` leaves a status unchanged
    warnings: Callable[[Any, Any], Iterable[str]] | None = None  # (object, replaced object) → warnings
    deprecated: Mapping[str, str] = field(default_factory=dict)  # version → since which release it is deprecated
    rules: KindRules = KindRules()  # noqa: RUF009  # immutable
    error_names: Mapping[str, Renames] = field(default_factory=dict)  # version → renames of fields in errors
    # Conversion functions, for versions that differ in more than their name.
    to_stored: Mapping[str, ToStored] = field(default_factory=dict)  # by version
    from_stored: Mapping[str, Callable[[Tree], None]] = field(default_factory=dict)
    # Presentation to clients.
    selectable: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)  # fields for field selectors
    not_selectable: str = "field label not supported: {field}"
    columns: tuple[TableColumn, ...] = NAME_AND_AGE  # columns of `kubectl get`
    view: Callable[[Any], Any] | None = None  # object → source of its table cells; None: the object itself
    row_conditions: Callable[[Any], list[dict[str, str]]] | None = None
    converted: KnownValues | None = None  # objects that the conversion webhook has returned during this request
    qualified: str = field(init=False)  # `resourceclaims.resource.k8s.io`; core resources have no suffix
    prefix: str = field(init=False)  # prefix of the storage keys
    converts: bool = field(init=False)  # a webhook converts objects between versions

    def __post_init__(self) -> None:
        if FROM_TYPE in (self.group, self.kind, self.stored):
            group, _, version = self.type().apiVersion.rpartition("/")  # type: ignore[attr-defined]  # of a stored kind
            self._derive("group", group, self.group == FROM_TYPE)
            self._derive("kind", self.type.__name__, self.kind == FROM_TYPE)
            self._derive("stored", version, self.stored == FROM_TYPE)
        self._derive("versions", (self.stored,), not self.versions)
        self._derive("singular", self.kind.lower(), not self.singular)
        self._derive("plural", plural_of(self.singular), not self.plural)
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        object.__setattr__(self, "qualified", qualified)
        object.__setattr__(self, "converts", self.custom is not None and self.custom.converts)
        object.__setattr__(self, "prefix", self.alias_of.prefix if self.alias_of else f"{qualified}/")

    def _derive(self, name: str, value: object, is_open: bool) -> None:
        if is_open:
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Resource({self.qualified})"

    def key(self, namespace: str, name: str) -> str:
        """Return the storage key of an object: the prefix and `namespace/name`, or `name` for cluster-scoped kinds."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def api_version(self, version: str | None = None) -> str:
        """Return `group/version`, or just the version for the core group; by default of the stored version."""
        version = version or self.stored
        return f"{self.group}/{version}" if self.group else version

    @property
    def home(self) -> Resource:
        """The resource under which the objects are stored; differs from this one only for aliases."""
        return self.alias_of or self

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom is not None else f"{self.kind}List"

    def message(self, version: str | None = None) -> str:
        """Return the schema name of this kind in a version, by default the stored version."""
        if self.custom is not None:
            return self.custom.message(version or self.stored)
        package = _PACKAGES.get(self.group) or f"io.k8s.api.{self.group.partition('.')[0] or 'core'}"
        return f"{package}.{version or self.stored}.{self.kind}"
