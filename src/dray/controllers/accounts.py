"""Keeps two objects in every namespace: the service account `default` and a config map with the cluster's CA
certificate.

The server creates both with the namespace. These controllers restore them after somebody deletes or changes them, and
create them if the API server does not. Left out: tokens, which the server issues on request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dray.api.errors import AlreadyExists, Forbidden, NotFound
from dray.api.types.core import ConfigMap, Namespace, ServiceAccount
from dray.client import Deltas
from dray.controllers.context import ControllerContext

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = "Contains the certificate that pods trust to reach the API server."


class _NamespaceContent:
    """Calls `bring` for each namespace when the namespace appears, and again when `again` is called with its name."""

    def __init__(self, context: ControllerContext, name: str, bring: Callable[[str], Awaitable[None]]) -> None:
        self._client = context.client
        self._bring = bring
        self._namespaces = context.informers.informer(Namespace)
        self._namespaces.add_handler(self._on_namespaces)
        self._controller = context.controller(name, self._reconcile)
        self.again = self._controller.queue.add
        self.run = self._controller.run

    def _on_namespaces(self, deltas: Deltas[Namespace]) -> None:
        for old, new in deltas:
            if new is not None and old is None:
                self.again(new.metadata.name)

    async def _reconcile(self, name: str) -> None:
        namespace = self._namespaces.get("", name)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return
        try:
            await self._bring(name)
        except (AlreadyExists, NotFound):
            pass  # somebody else was faster; a handler reports what changed
        except Forbidden:
            if not await self._ending(name):
                raise

    async def _ending(self, name: str) -> bool:
        """Whether the namespace is deleted or being deleted."""
        try:
            return (await self._client.get(Namespace, name)).metadata.deletionTimestamp is not None
        except NotFound:
            return True


class ServiceAccounts:
    """Keeps the service account `default`, which pods use when they name none, in every namespace."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._content = _NamespaceContent(context, "serviceaccount", self._bring)
        self.run = self._content.run
        self._accounts = context.informers.informer(ServiceAccount)
        self._accounts.add_handler(self._on_accounts)

    def _on_accounts(self, deltas: Deltas[ServiceAccount]) -> None:
        for old, new in deltas:
            if new is None and old is not None and old.metadata.name == DEFAULT_ACCOUNT:
                self._content.again(old.metadata.namespace)

    async def _bring(self, namespace: str) -> None:
        if self._accounts.get(namespace, DEFAULT_ACCOUNT) is None:
            await self._client.create(ServiceAccount, {"metadata": {"name": DEFAULT_ACCOUNT}}, namespace=namespace)


class RootCertificates:
    """Keeps the config map with the certificate by which pods recognise the API server in every namespace."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._data = {"ca.crt": context.root_ca} if context.root_ca else {}
        self._content = _NamespaceContent(context, "root-ca-certificate-publisher", self._bring)
        self.run = self._content.run
        self._maps = context.informers.informer(ConfigMap)
        self._maps.add_handler(self._on_maps)

    def _on_maps(self, deltas: Deltas[ConfigMap]) -> None:
        for delta in deltas:
            meta = delta.object.metadata
            if meta.name == ROOT_CA and (delta.new is None or delta.new.data != self._data):
                self._content.again(meta.namespace)

    async def _bring(self, namespace: str) -> None:
        if not self._data:  # no CA is configured
            return
        found = self._maps.get(namespace, ROOT_CA)
        if found is None:
            metadata = {"name": ROOT_CA, "annotations": {"kubernetes.io/description": _DESCRIPTION}}
            await self._client.create(ConfigMap, {"metadata": metadata, "data": dict(self._data)}, namespace=namespace)
        elif found.data != self._data:
            patch: dict[str, Any] = {"data": dict.fromkeys(found.data) | self._data}
            await self._client.patch(ConfigMap, ROOT_CA, patch, namespace)
