"""Parameters of admission policies: objects of the policy's paramKind, selected by a binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.resources import BY_KIND, Resource
from dray.api.selectors import label_selector
from dray.api.types.admissionregistration import ParamKind, ParamRef
from dray.api.wire import Wire
from dray.apiserver.admission.matching import shown
from dray.apiserver.read.reader import Reader

Params = dict[str, Any] | None
FindKind = Callable[[str, str], Resource | None]  # (group, kind) of a custom resource


class ParamsError(Exception):
    """The parameters of a policy cannot be found. The text has the reason."""


class ParamSource:
    """Finds parameter objects of one kind. Creating it raises ParamsError for a kind that this server does not store."""

    def __init__(self, kind: ParamKind, reader: Reader, find_kind: FindKind | None = None) -> None:
        group, _, version = kind.apiVersion.rpartition("/")
        resource = BY_KIND.get((group, kind.kind)) or (find_kind(group, kind.kind) if find_kind is not None else None)
        if resource is None or version not in resource.versions or "get" not in resource.verbs:
            written = f"{kind.apiVersion}, Kind={kind.kind}"
            raise ParamsError(f"failed to find resource referenced by paramKind: '{written}'")
        self._resource: Resource = resource
        self._version = version
        self._reader = reader

    def find(self, reference: ParamRef | None, namespace: str) -> list[Params]:
        """Return the parameters that a binding selects for a request in a namespace.

        Returns [None] for a binding without paramRef, and an empty list if no parameters exist and the binding allows
        that. Raises ParamsError if the binding denies it, or if its paramRef does not fit the kind's scope.
        """
        if reference is None:
            return [None]
        found = self._found(reference, self._namespace(reference, namespace))
        if not found and reference.parameterNotFoundAction == "Deny":
            raise ParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [shown(self._resource, self._version, one) for one in found]

    def _namespace(self, reference: ParamRef, namespace: str) -> str:
        """Return the namespace of the parameters; "" if their kind is cluster-scoped.

        `namespace` is that of the request, used if the paramRef has none. Raises ParamsError if the paramRef has a
        namespace but the kind is cluster-scoped, or if a namespaced kind has neither namespace.
        """
        if not self._resource.namespaced:
            if reference.namespace:
                raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return ""
        if not reference.namespace and not namespace:
            raise ParamsError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        return reference.namespace or namespace

    def _found(self, reference: ParamRef, namespace: str) -> list[Wire]:
        """Return the objects selected by the name or selector of a paramRef; empty if there are none."""
        if reference.name:
            one = self._reader.get(self._resource, namespace, reference.name)
            return [one] if one is not None else []
        selector = label_selector(reference.selector)
        objects = self._reader.list(self._resource, namespace)
        return [one for one in objects if selector.matches(one.metadata.labels)]  # type: ignore[attr-defined]  # every stored kind has metadata
