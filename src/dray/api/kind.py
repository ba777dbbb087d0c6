"""What a kind is made of: the description that each file of `dray.api.kinds` contains.

Left out: which kinds there are (`dray.api.resources`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dray.api.columns import AGE, NAME, TableColumn
from dray.api.wire import Wire

if TYPE_CHECKING:
    from dray.api.custom.kinds import CustomKind
    from dray.api.needs import Known

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

# Where the schema keeps groups that are not part of io.k8s.api.
_PACKAGES = {
    EXTENSIONS: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    REGISTRATION: "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    METRICS: "io.k8s.metrics.pkg.apis.metrics",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # asked, and looked up by, several times in every request
class Resource:
    """One kind of the API, in one group: its names, versions and stored type."""

    group: str
    plural: str
    kind: str
    type: type[Wire]
    versions: tuple[str, ...] = ("v1",)  # in order of preference
    stored: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    gate: str | None = None  # served only while this feature gate is on
    alias_of: Resource | None = None  # the kind whose stored objects this group serves too (events)
    custom: CustomKind | None = None  # of a custom resource: what its definition says
    singular: str = ""
    inert: bool = False  # nothing here acts on such objects; whoever creates one is told
    columns: tuple[TableColumn, ...] = NAME_AND_AGE  # of the tables that `kubectl get` shows
    view: Callable[[Any], Any] | None = None  # what the cells of a row are taken from, where that is not the object
    row_conditions: Callable[[Any], list[dict[str, str]]] | None = None
    converted: Known | None = None  # of a custom resource in one request: objects that a webhook has converted for it
    qualified: str = field(init=False)  # `resourceclaims.resource.k8s.io`; core resources have no suffix
    prefix: str = field(init=False)  # where the objects of this resource are stored

    def __post_init__(self) -> None:
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "qualified", qualified)
        object.__setattr__(self, "prefix", self.alias_of.prefix if self.alias_of else f"{qualified}/")

    def __repr__(self) -> str:
        return f"Resource({self.qualified})"

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def api_version(self, version: str | None = None) -> str:
        version = version or self.stored
        return f"{self.group}/{version}" if self.group else version

    @property
    def home(self) -> Resource:
        """The resource whose objects are stored: another one only where two groups serve the same objects."""
        return self.alias_of or self

    @property
    def converts(self) -> bool:
        """Whether a webhook makes the objects of one version from those of another."""
        return self.custom is not None and self.custom.converts

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom is not None else f"{self.kind}List"

    def message(self, version: str | None = None) -> str:
        """The schema's name of this kind in a version."""
        if self.custom is not None:
            return self.custom.message(version or self.stored)
        package = _PACKAGES.get(self.group) or f"io.k8s.api.{self.group.partition('.')[0] or 'core'}"
        return f"{package}.{version or self.stored}.{self.kind}"
